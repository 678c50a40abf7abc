"""The stored reply to a message of which only the feeling is known."""

from dataclasses import replace

from emotions import Wheel
from services.mllm.domain import ReplyRequest
from services.mllm.reply.exemplars import Exemplars
from services.mllm.reply.gate import BAD_VALENCE, Gate, Situation, sentences

GRAVE_LABEL = "sad"
"""Whose general replies are used when a grave message came with a happy label."""
MOVED_LABELS = frozenset({"caring", "faithful"})
"""Labels of no bad feeling whose own general replies suit a grave message: one cares for the sick, visits a grave."""


def situation_of(request: ReplyRequest, wheel: Wheel) -> Situation:
    """Return what a sentence of the reply to `request` is judged against."""
    history = request.message.history
    return Situation(
        message=request.message.text,
        valence=wheel.label(request.user_emotion).valence,
        earlier=tuple(turn.text for turn in history if turn.speaker == "avatar"),
        context=tuple(turn.text for turn in history if turn.speaker == "user"),
        name=request.profile.name,
    )


def passes(gate: Gate, reply: tuple[str, ...], situation: Situation) -> bool:
    """Tell whether all sentences of a stored reply pass the gate, one after the other."""
    for sentence in reply:
        if gate.refusal(sentence, situation):
            return False
        situation = replace(situation, said=(*situation.said, sentence))
    return True


def general_reply(
    request: ReplyRequest, situation: Situation, exemplars: Exemplars, gate: Gate, wheel: Wheel
) -> tuple[str, ...]:
    """Return the sentences of a stored reply that fits whatever was said with the user's emotion.

    A reply that was given before is not given again while there is another, and a grave message with a label of no bad
    feeling is answered gravely. `request.seed` decides among those that pass.
    """
    label = wheel.label(request.user_emotion)
    unmoved = label.valence > BAD_VALENCE and label.name not in MOVED_LABELS
    grave_first = unmoved and gate.is_grave(request.message.text)
    for name in (GRAVE_LABEL, label.name) if grave_first else (label.name, GRAVE_LABEL):
        fresh = [reply for reply in exemplars.general[name] if passes(gate, sentences(reply), situation)]
        if fresh:
            return sentences(fresh[request.seed % len(fresh)])
    return sentences(exemplars.general[label.name][0])
