"""Decides which emotion the avatar feels, and what voice and face will do with it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from emotions import Emotion, Wheel
from emotions.wheel import POLICY_DEFAULT
from services.common.errors import FailedPrecondition, InvalidRequest

COUNTRY = re.compile(r"[A-Z]{2}")
"""An ISO 3166-1 alpha-2 code."""


@dataclass(frozen=True)
class Capabilities:
    """The voice styles and face classes that the generators have; empty for what is not wanted."""

    styles: Sequence[str] = ()
    classes: Sequence[str] = ()


def check_wishes(header: pb.RespondHeader, wheel: Wheel) -> None:
    """Refuses a wish for an emotion that cannot be had, before any work is done.

    Raises:
        InvalidRequest: The label or the policy is unknown, the intensity is out of range or has no label, the
            country is no code, or the quality has no video.
    """
    if header.reply_emotion and header.reply_emotion not in wheel.labels:
        problem = f"{header.reply_emotion!r} is no emotion label; use one of: {', '.join(wheel.labels)}"
        raise InvalidRequest("header.reply_emotion", problem)
    if header.policy and header.policy not in wheel.policies:
        problem = f"{header.policy!r} is no policy; use one of: {', '.join(wheel.policies)}"
        raise InvalidRequest("header.policy", problem)
    if header.HasField("reply_intensity"):
        if not header.reply_emotion:
            raise InvalidRequest("header.reply_intensity", "set without reply_emotion; set both or neither")
        if not 0 <= header.reply_intensity <= 1:
            raise InvalidRequest("header.reply_intensity", f"{header.reply_intensity:g}; send 0 to 1")
    if header.country and not COUNTRY.fullmatch(header.country):
        problem = f"{header.country!r}; send a code of ISO 3166-1 like 'DE', or leave it out"
        raise InvalidRequest("header.country", problem)
    if header.quality and header.output not in (pb.OUTPUT_UNSPECIFIED, pb.OUTPUT_VIDEO):
        problem = f"{header.quality!r} without video; ask for OUTPUT_VIDEO, or leave it out"
        raise InvalidRequest("header.quality", problem)


def check_quality(wished: str, qualities: Sequence[str]) -> None:
    """Refuses a quality tier that the renderer lacks.

    Raises:
        InvalidRequest: It is none of `qualities`.
    """
    if wished not in qualities:
        raise InvalidRequest("header.quality", f"{wished!r}; use one of: {', '.join(qualities)}")


def decide_delivery(
    wheel: Wheel,
    header: pb.RespondHeader,
    understood: understanding.UnderstandResponse,
    bank: identities.EmotionBank,
    able: Capabilities,
) -> pb.Delivery:
    """Returns the reply's emotion and its style and class, the nearest on the wheel where a generator lacks one.

    Raises:
        FailedPrecondition: A generator and the identity's emotion bank have nothing in common.
    """
    emotion, decided_by = _emotion(wheel, header, understood)
    delivery = pb.Delivery(
        emotion=common.Emotion(
            label=emotion.label,
            face_class=wheel.label(emotion.label).coarse,
            intensity=emotion.intensity,
            ontology_hash=wheel.digest,
        ),
        decided_by=decided_by,
    )
    try:
        if able.styles:
            style = wheel.voice_style(emotion.label, set(able.styles) & set(bank.voice_styles))
            delivery.voice_style, delivery.voice_exact = style.name, style.exact
        if able.classes:
            face = wheel.face_class(emotion.label, set(able.classes) & set(bank.face_classes))
            delivery.face_class, delivery.face_exact = face.name, face.exact
    except ValueError as error:
        raise FailedPrecondition(f"emotion bank {bank.name!r} and the generators share nothing: {error}") from error
    return delivery


def _emotion(
    wheel: Wheel, header: pb.RespondHeader, understood: understanding.UnderstandResponse
) -> tuple[Emotion, str]:
    if understood.HasField("risk"):
        return wheel.crisis, "risk"
    if header.reply_emotion:
        label = wheel.label(header.reply_emotion)
        wished = header.reply_intensity if header.HasField("reply_intensity") else label.intensity
        return Emotion(label.name, wished), "request"
    policy = header.policy or POLICY_DEFAULT
    return wheel.reply_to(understood.emotion.label, policy), f"policy {policy}"
