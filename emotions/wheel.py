"""Loads `ontology.toml` and answers questions about it: where a label lies, what is near it, what replies to it."""

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

POLICY_DEFAULT = "empathic"


@dataclass(frozen=True)
class Label:
    """One emotion word and its place on the wheel.

    Attributes:
        name: The word, lower case.
        valence: Unpleasant -1 to pleasant 1.
        arousal: Calm -1 to excited 1.
        angle_deg: Place around Plutchik's wheel, joy at 0; None at the hub.
        coarse: The class, one of `Wheel.classes`, that scores it and that a face shows it with.
        style: The voice style, one of `Wheel.styles`.
        intensity: Default strength, 0 to 1.
    """

    name: str
    valence: float
    arousal: float
    angle_deg: float | None
    coarse: str
    style: str
    intensity: float

    @property
    def point(self) -> tuple[float, float, float, float]:
        """Valence, arousal, and the Cartesian place on Plutchik's wheel."""
        if self.angle_deg is None:
            return (self.valence, self.arousal, 0.0, 0.0)
        radius, angle = self.intensity, math.radians(self.angle_deg)
        return (self.valence, self.arousal, radius * math.cos(angle), radius * math.sin(angle))


@dataclass(frozen=True)
class Emotion:
    """An emotion as it travels with a message: a label with the strength at which it is meant, 0 to 1."""

    label: str
    intensity: float


@dataclass(frozen=True)
class GeneratorClass:
    """Class or style that a generator uses for a label: `exact` is false when it is only the nearest it has."""

    name: str
    exact: bool


@dataclass(frozen=True)
class Wheel:
    """The ontology. Services whose wheels have different digests must not be paired.

    `digest` is the SHA-256 of its content; of a wheel that is declared compatible, that of the one with which it is.
    """

    version: str
    digest: str
    labels: Mapping[str, Label]
    classes: tuple[str, ...]
    styles: tuple[str, ...]
    policies: Mapping[str, Mapping[str, Any]]
    crisis: Emotion
    reproduction: Mapping[str, Mapping[str, str]]

    def difference(self, digest: str) -> str:
        """Returns what is wrong with a caller that uses the wheel `digest`; empty when it is this wheel."""
        if digest == self.digest:
            return ""
        theirs = digest[:12] or "not named"
        mine = self.digest[:12]
        return f"the caller's emotion wheel is {theirs}, this service's is {mine}; deploy the same version of both"

    def label(self, name: str) -> Label:
        """Returns the label called `name`.

        Raises:
            KeyError: It is not a label; the message lists those that are.
        """
        try:
            return self.labels[name]
        except KeyError:
            known = ", ".join(self.labels)
            raise KeyError(f"{name!r} is not an emotion label; use one of: {known}") from None

    def distance(self, first: str, second: str) -> float:
        """Euclidean distance of two labels on the wheel."""
        return math.dist(self.label(first).point, self.label(second).point)

    def face_class(self, name: str, available: Collection[str]) -> GeneratorClass:
        """Returns the class that shows `name`, or the nearest on the wheel of the `available` classes.

        Raises:
            ValueError: `available` is empty.
        """
        return self._nearest(self.label(name).coarse, name, available)

    def voice_style(self, name: str, available: Collection[str]) -> GeneratorClass:
        """Returns the style that speaks `name`, or the available style whose labels lie nearest to it.

        Raises:
            ValueError: `available` is empty.
        """
        label = self.label(name)
        if label.style in available:
            return GeneratorClass(label.style, exact=True)
        candidates = sorted(
            (self.distance(name, other.name), other.style) for other in self.labels.values() if other.style in available
        )
        if not candidates:
            raise ValueError(f"none of the styles {sorted(available)} is known to the wheel")
        return GeneratorClass(candidates[0][1], exact=False)

    def _nearest(self, wanted: str, name: str, available: Collection[str]) -> GeneratorClass:
        if wanted in available:
            return GeneratorClass(wanted, exact=True)
        candidates = sorted((self.distance(name, other), other) for other in available if other in self.labels)
        if not candidates:
            raise ValueError(f"none of the classes {sorted(available)} is known to the wheel")
        return GeneratorClass(candidates[0][1], exact=False)

    def members(self, face_class: str) -> list[str]:
        """Returns the labels of a class, in the order of the wheel."""
        return [label.name for label in self.labels.values() if label.coarse == face_class]

    def spread(self, coarse: Mapping[str, float]) -> dict[str, float]:
        """Spreads a distribution over classes to the labels.

        The mass of a class goes to the labels of that class, the more the nearer they lie to the class's own
        label: weight exp(-distance). A class's own label therefore gets most. The sum is kept.

        Raises:
            KeyError: A name is not a class; the message lists those that are.
        """
        fine = dict.fromkeys(self.labels, 0.0)
        for name, mass in coarse.items():
            if name not in self.classes:
                raise KeyError(f"{name!r} is not an emotion class; use one of: {', '.join(self.classes)}")
            weights = {member: math.exp(-self.distance(name, member)) for member in self.members(name)}
            total = sum(weights.values())
            for member, weight in weights.items():
                fine[member] += mass * weight / total
        return fine

    def gather(self, fine: Mapping[str, float]) -> dict[str, float]:
        """Sums a distribution over labels to the classes."""
        coarse = dict.fromkeys(self.classes, 0.0)
        for name, mass in fine.items():
            coarse[self.label(name).coarse] += mass
        return coarse

    def reply_to(self, user_label: str, policy: str = POLICY_DEFAULT) -> Emotion:
        """Returns the emotion that answers `user_label` under `policy`.

        Raises:
            KeyError: The label or the policy is unknown.
        """
        label = self.label(user_label)
        if policy not in self.policies:
            raise KeyError(f"{policy!r} is not a reply policy; use one of: {', '.join(self.policies)}")
        rules = self.policies[policy]
        if rules.get("mirror"):
            return Emotion(label.name, label.intensity)
        rule = rules["reply"][user_label]
        reply = self.label(rule["label"])
        return Emotion(reply.name, min(1.0, reply.intensity * rule["intensity"]))


@cache
def load() -> Wheel:
    """Returns the wheel that ships with this version.

    Raises:
        ValueError: The data file contradicts itself.
    """
    return parse(resources.files("emotions").joinpath("ontology.toml").read_text("utf-8"))


def parse(text: str) -> Wheel:
    """Returns the wheel that `text`, TOML as in `ontology.toml`, describes.

    Raises:
        ValueError: It is not TOML, lacks a part or contradicts itself; the message says where.
    """
    content = tomllib.loads(text)
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    if earlier := content.get("compatible_with", ""):
        if not re.fullmatch("[0-9a-f]{64}", earlier):
            raise ValueError(f"ontology.toml: compatible_with is {earlier!r}; give the digest of an earlier wheel")
        digest = earlier
    try:
        wheel = _wheel(content, digest)
    except KeyError as error:
        raise ValueError(f"ontology.toml: {error} is missing") from error
    _check(wheel)
    return wheel


def _wheel(content: Mapping[str, Any], digest: str) -> Wheel:
    hit = content["reproduction"]["hit"]
    changes = {name: value for name, value in content["reproduction"]["render"].items() if name != "inherits"}
    return Wheel(
        version=content["version"],
        digest=digest,
        labels={name: _label(name, row) for name, row in content["labels"].items()},
        classes=tuple(content["classes"]),
        styles=tuple(content["styles"]),
        policies=content["policies"],
        crisis=Emotion(content["crisis"]["label"], content["crisis"]["intensity"]),
        reproduction={"hit": hit, "render": hit | changes},
    )


def _label(name: str, row: Mapping[str, Any]) -> Label:
    try:
        return Label(**{"name": name, "angle_deg": None, **row})
    except TypeError as error:
        raise ValueError(f"ontology.toml: {name} has a field too many or too few ({error})") from error


def _check(wheel: Wheel) -> None:
    for label in wheel.labels.values():
        if label.coarse not in wheel.classes or label.style not in wheel.styles:
            raise ValueError(f"ontology.toml: {label.name} has an unknown class or style")
        if not (-1 <= label.valence <= 1 and -1 <= label.arousal <= 1 and 0 <= label.intensity <= 1):
            raise ValueError(f"ontology.toml: {label.name} lies outside the wheel")
    if wheel.crisis.label not in wheel.labels or not 0 <= wheel.crisis.intensity <= 1:
        raise ValueError("ontology.toml: crisis names no label, or an intensity out of range")
    for name in wheel.classes:
        if name not in wheel.labels or wheel.labels[name].coarse != name:
            raise ValueError(f"ontology.toml: class {name} is not a label of its own class")
    for name, policy in wheel.policies.items():
        if not policy.get("mirror"):
            _check_replies(wheel, name, policy.get("reply", {}))
    for name, table in wheel.reproduction.items():
        if set(table) != set(wheel.labels) or not set(table.values()) <= set(wheel.classes):
            raise ValueError(f"ontology.toml: reproduction.{name} does not map every label, each to a class")


def _check_replies(wheel: Wheel, policy: str, replies: Mapping[str, Any]) -> None:
    if set(replies) != set(wheel.labels):
        raise ValueError(f"ontology.toml: policy {policy} does not answer every label, or answers what is none")
    for name, rule in replies.items():
        if rule.get("label") not in wheel.labels or not rule.get("intensity", -1) > 0:
            raise ValueError(f"ontology.toml: policy {policy} answers {name} with no label, or with no intensity")
