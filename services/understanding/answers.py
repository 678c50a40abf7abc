"""Checks what a voter answers: models are others' programs, and what they send is not believed."""

from e3rg.mllm.v1 import mllm_pb2 as pb
from emotions import Wheel
from services.understanding.domain import NAME_CHARS, malformed

TIE_TOLERANCE = 1e-5
"""By how much the name that it says is first may be behind: in single precision two may have become one."""


def problem_of(answer: pb.PredictEmotionResponse, level: pb.Level, wheel: Wheel) -> str:
    """Returns what is wrong with a vote; empty when it can be counted.

    Args:
        answer: The vote.
        level: How fine the votes of its model are, by the model's own word; unspecified when that is not known.
        wheel: The emotion wheel.
    """
    if answer.abstained:
        return ""
    return malformed(answer.distribution, wheel) or _overstated(answer.level, level) or _contradictory(answer, wheel)


def _overstated(answered: pb.Level, level: pb.Level) -> str:
    if answered not in (pb.LEVEL_LABEL, pb.LEVEL_CLASS):
        return "it does not say whether it voted on labels or on classes"
    if answered == pb.LEVEL_LABEL and level == pb.LEVEL_CLASS:
        return "it voted on labels, but its card says that it tells classes only"
    return ""


def _contradictory(answer: pb.PredictEmotionResponse, wheel: Wheel) -> str:
    """Returns where the names that it says are first are not those that its distribution puts first."""
    if answer.face_class not in wheel.classes:
        return f"its class is {answer.face_class[:NAME_CHARS]!r}, no class of the wheel"
    if answer.label not in wheel.labels:
        return f"its label is {answer.label[:NAME_CHARS]!r}, no label of the wheel"
    labels = {name: answer.distribution.get(name, 0.0) for name in wheel.labels}
    classes = wheel.gather(labels)
    first = max(classes, key=classes.__getitem__)
    if classes[answer.face_class] < classes[first] - TIE_TOLERANCE:
        return f"it says class {answer.face_class}, but its distribution {first}"
    # Its first label lies in another class where a class of many labels wins; either may be said.
    firsts = (max(labels, key=labels.__getitem__), max(wheel.members(answer.face_class), key=labels.__getitem__))
    if not any(
        wheel.label(answer.label).coarse == wheel.label(name).coarse
        and labels[answer.label] >= labels[name] - TIE_TOLERANCE
        for name in firsts
    ):
        return f"it says label {answer.label}, but its distribution {firsts[1]}"
    return ""
