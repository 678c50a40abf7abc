"""Checks what a voter answers: models are others' programs, and what they send is not believed."""

import math
from collections.abc import Mapping

from e3rg.mllm.v1 import mllm_pb2 as pb
from emotions import Wheel
from services.understanding.rules import members

SUM_TOLERANCE = 1e-3
"""By how much a distribution, in single precision over the wire, may miss the sum of 1."""
TIE_TOLERANCE = 1e-5
"""By how much the name that it says is first may be behind: in single precision two may have become one."""


def problem_of(answer: pb.PredictEmotionResponse, level: pb.Level, wheel: Wheel) -> str:
    """Returns what is wrong with a vote; empty when it can be counted.

    Args:
        answer: The vote.
        level: How fine the votes of its model are, by the model's own word.
        wheel: The emotion wheel.
    """
    if answer.abstained:
        return ""
    return _malformed(answer.distribution, wheel) or _overstated(answer.level, level) or _contradictory(answer, wheel)


def _malformed(distribution: Mapping[str, float], wheel: Wheel) -> str:
    if not distribution:
        return "it neither voted nor abstained"
    if unknown := sorted(set(distribution) - set(wheel.labels)):
        return f"its distribution holds {_named(unknown)}, no label of the wheel"
    for name, value in distribution.items():
        if not math.isfinite(value) or value < 0:
            return f"its probability of {name} is {value:g}"
    total = math.fsum(distribution.values())
    if not math.isclose(total, 1, abs_tol=SUM_TOLERANCE):
        return f"its probabilities sum to {total:.4g}, not to 1"
    return ""


def _overstated(answered: pb.Level, level: pb.Level) -> str:
    if answered not in (pb.LEVEL_LABEL, pb.LEVEL_CLASS):
        return "it does not say whether it voted on labels or on classes"
    if answered == pb.LEVEL_LABEL and level == pb.LEVEL_CLASS:
        return "it voted on labels, but its card says that it tells classes only"
    return ""


def _contradictory(answer: pb.PredictEmotionResponse, wheel: Wheel) -> str:
    """Returns where the names that it says are first are not those that its distribution puts first."""
    if answer.face_class not in wheel.classes:
        return f"its class is {_named([answer.face_class])}, no class of the wheel"
    if answer.label not in wheel.labels:
        return f"its label is {_named([answer.label])}, no label of the wheel"
    labels = {name: answer.distribution.get(name, 0.0) for name in wheel.labels}
    classes = wheel.gather(labels)
    first = max(classes, key=classes.__getitem__)
    if classes[answer.face_class] < classes[first] - TIE_TOLERANCE:
        return f"it says class {answer.face_class}, but its distribution {first}"
    # Its first label lies in another class where a class of many labels wins; either may be said.
    firsts = (max(labels, key=labels.__getitem__), max(members(wheel, answer.face_class), key=labels.__getitem__))
    if not any(
        wheel.label(answer.label).coarse == wheel.label(name).coarse
        and labels[answer.label] >= labels[name] - TIE_TOLERANCE
        for name in firsts
    ):
        return f"it says label {answer.label}, but its distribution {firsts[1]}"
    return ""


def _named(names: list[str]) -> str:
    """Returns the first of them for a message, cut to a readable length."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0][:40]!r}{more}"
