"""Makes a vote of what a chat model says about the emotion of a message."""

import math
from collections.abc import Mapping, Sequence

from services.common.errors import BackendFailed
from services.mllm.chat.dialogue import latest
from services.mllm.chat.limits import Limited, within
from services.mllm.chat.model import ChatModel, Chooser, Sampling, Scorer, Turn, pieces_of
from services.mllm.chat.parse import LabelParser
from services.mllm.chat.question import EmotionPrompt
from services.mllm.chat.settings import ChatSettings
from services.mllm.chat.shots import Shots
from services.mllm.domain import AUDIO_RATE_HZ, Level, Message, Modality, Prediction

STOPPED = "nobody waits for the answer any more"


class ChatVoter:
    """Asks `model` for the emotion, in the strictest way that it offers."""

    def __init__(
        self, model: ChatModel, settings: ChatSettings, prompt: EmotionPrompt, labels: Sequence[str], shots: Shots
    ) -> None:
        self._model, self._settings, self._prompt, self._shots = model, settings, prompt, shots
        self._labels = tuple(labels)
        self._parser = LabelParser(labels, prompt.forms, prompt.beside)

    def predict(self, message: Message) -> Prediction:
        """Votes, or abstains when the model perceives nothing of the message, or names no label.

        The likelihood of every label is asked for where the model tells it ("scored"), else a choice among the labels
        ("guided"), else free text ("parsed", "unparsable").

        Raises:
            BackendFailed: The model failed, or its likelihoods are none.
        """
        evidence = _unseen(message, self._model.perceives)
        if isinstance(self._model, Limited):
            message, cut = within(message, self._model.limits)
            evidence |= {"cut": cut} if cut else {}
        saw = _present(message) & self._model.perceives
        if not saw:
            reason = evidence.get("not_seen") or "the message holds nothing"
            return Prediction(Level.LABEL, {}, saw, self._parse_of_choice(), abstained=reason, evidence=evidence)
        history = latest(message.history, self._settings.history_turns_max, self._settings.history_chars_max)
        examples = self._shots.pick(message)
        solved = [(example.message, example.shot.label) for example in examples]
        turns = self._prompt.turns(message, history, solved, self._labels, saw)
        distribution, parse, answer = self._ask(turns, message)
        abstained = ""
        if message.stop.is_set():
            distribution, abstained = {}, STOPPED
        elif not distribution:
            abstained = f"the answer names no label, or more than one: {answer[:80]!r}"
        return Prediction(
            Level.LABEL,
            distribution,
            saw,
            parse,
            abstained=abstained,
            evidence=evidence,
            shots=tuple(example.shot for example in examples),
            history_dropped=len(message.history) - len(history),
            answer=answer,
        )

    def _ask(self, turns: Sequence[Turn], message: Message) -> tuple[Mapping[str, float], str, str]:
        """Returns the distribution, how it was obtained, and what the model wrote."""
        model, stopped = self._model, message.stop.is_set
        if isinstance(model, Scorer):
            told = model.log_likelihoods(turns, self._labels, stopped)
            return ({} if stopped() else softmax(self._labels, told)), "scored", ""
        if isinstance(model, Chooser):
            choice = model.choose(turns, self._labels, stopped)
            text, known, is_guided = choice.text, choice.log_likelihoods, choice.guided
        else:
            sampling = Sampling(self._settings.answer_tokens_max, 0.0, 1.0, message.seed & 0x7FFFFFFF)
            text, known, is_guided = "".join(pieces_of(model, turns, sampling, stopped)), {}, False
        label = self._parser.parse(text)
        if not label:
            return {}, "unparsable", text
        is_kept = is_guided and text.strip() == label
        return _around(label, known, self._labels), "guided" if is_kept else "parsed", text

    def _parse_of_choice(self) -> str:
        if isinstance(self._model, Scorer):
            return "scored"
        return "guided" if isinstance(self._model, Chooser) else "parsed"


def softmax(names: Sequence[str], log_likelihoods: Sequence[float]) -> dict[str, float]:
    """Returns a probability per name, proportional to its likelihood.

    Raises:
        BackendFailed: They are not one number each, or none is above zero.
    """
    values = [float(value) for value in log_likelihoods]
    top = max(values, default=-math.inf)
    if len(values) != len(names) or any(math.isnan(value) for value in values) or not math.isfinite(top):
        raise BackendFailed(f"{len(values)} log-likelihoods with a maximum of {top} for {len(names)} answers")
    weights = [math.exp(value - top) for value in values]
    total = math.fsum(weights)
    return {name: weight / total for name, weight in zip(names, weights, strict=True)}


def _around(label: str, told: Mapping[str, float], labels: Sequence[str]) -> Mapping[str, float]:
    """Returns the distribution of an answer, from the log-likelihoods that the server told.

    What they leave of 1 goes in equal parts to the labels that were not told, none of which may come out likelier than
    the least likely one told: a server tells the likeliest. Where the answer itself is not among them, they are of
    something else, and the answer has all the mass.
    """
    known = {name: value for name, value in told.items() if name in labels and value > -math.inf}
    if label not in known:
        return {label: 1.0}
    untold = [name for name in labels if name not in known]
    if untold:
        left = 1 - math.fsum(math.exp(value) for value in known.values())
        share = math.log(left / len(untold)) if left > 0 else -math.inf
        known |= dict.fromkeys(untold, min(share, *known.values()))
    return softmax(tuple(known), tuple(known.values()))


def _present(message: Message) -> frozenset[Modality]:
    there = {
        Modality.TEXT: bool(message.text.strip()),
        Modality.AUDIO: message.audio is not None and len(message.audio) > 0,
        Modality.VIDEO: bool(message.frames),
    }
    return frozenset(modality for modality, is_there in there.items() if is_there)


def _unseen(message: Message, perceives: frozenset[Modality]) -> dict[str, str]:
    """What the message holds and the model does not perceive, as evidence."""
    unseen = _present(message) - perceives
    if not unseen:
        return {}
    said = {Modality.TEXT: "text", Modality.VIDEO: f"{len(message.frames)} frames"}
    if message.audio is not None:
        said[Modality.AUDIO] = f"audio {len(message.audio) / AUDIO_RATE_HZ:.1f} s"
    what = ", ".join(said[modality] for modality in sorted(unseen))
    return {"not_seen": f"{what}: this model perceives {' and '.join(sorted(perceives))} only"}
