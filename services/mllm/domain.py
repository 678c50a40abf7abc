"""Questions to an emotion model and its answers: predict the speaker's emotion, write the reply, transcribe."""

import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from emotions import Wheel
from services.common.errors import BackendFailed, InvalidRequest

AUDIO_RATE_HZ = 16_000
"""Sample rate of the audio that a model gets."""
NEUTRAL = "neutral"
"""The class of the wheel that is no emotion."""
NEUTRAL_CLEAR_MIN = 0.5
"""Probability from which neutral is a vote: it is then likelier than all emotions together.

Measured: still portraits 0.53 to 0.59 (one that hints a smile 0.31); expressions drawn at 0.6 of their intensity, where
neutral wins over them, 0.43 to 0.51. Calm synthetic voices 0.29 to 0.45: a stranger's voice hardly ever makes neutral
surer than that, so a calm voice leaves the decision to the words.
"""


class Modality(StrEnum):
    """What a model can perceive."""

    TEXT = "text"
    AUDIO = "audio"
    VIDEO = "video"


class Level(StrEnum):
    """How fine a model's answer is: the wheel's labels, or its coarse classes."""

    LABEL = "label"
    CLASS = "class"


@dataclass(frozen=True)
class Utterance:
    """One earlier turn of the conversation. `emotion` is the label that was decided for it, if any."""

    speaker: Literal["user", "avatar"]
    text: str
    emotion: str = ""


@dataclass(frozen=True)
class Frame:
    """One frame of the user's video: `image` is uint8 (height, width, 3), RGB; `time_s` from the clip's start."""

    time_s: float
    image: NDArray[np.uint8]


@dataclass(frozen=True)
class Message:
    """What the user said this turn, with what came before. Any of text, audio and frames may be absent.

    Attributes:
        text: What was typed, or else the transcript of what was spoken.
        audio: float32 (n,), mono, `AUDIO_RATE_HZ`, -1 to 1.
        frames: In order of time.
        history: Oldest first; the message itself is not in it.
        seed: The same seed and message give the same prompt and the same answer.
        stop: Set, from any thread, when nobody waits for the answer any more; a model that can stops at its next step.
    """

    text: str = ""
    audio: NDArray[np.float32] | None = None
    frames: tuple[Frame, ...] = ()
    history: tuple[Utterance, ...] = ()
    seed: int = 0
    stop: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)


@dataclass(frozen=True)
class Shot:
    """A solved example in a prompt: `id` is its place in the store, `similarity` -1 to 1 to the end of the dialogue."""

    id: str
    label: str
    similarity: float


@dataclass(frozen=True)
class Prediction:
    """A model's vote.

    Attributes:
        level: Whether `distribution` is over labels or over classes.
        distribution: Probability per name; sums to 1. Empty when the model abstains.
        saw: What the model really perceived for this vote.
        parse: How the answer was obtained: "classified"; "scored" (likelihood of every label); "guided" (the model
            could only say a label); "parsed" (free text that names one label); "unparsable" (free text that does not).
        abstained: Why there is no answer: nothing to go by ("no face in any frame") or nothing that stands out in it
            ("no clear expression: neutral 0.44, happy 0.21"); empty when there is one.
        evidence: Measured facts a person can check, as short text ("pitch_semitones": "+2.1 over the speaker's own").
            An abstention keeps what was measured.
        crisis: Whether the model found that the message speaks of a danger.
        shots: The solved examples that the model was shown, in order.
        history_dropped: Utterances of the history that the model did not get, counted from the oldest.
        answer: What the model wrote; empty when nothing was written.
    """

    level: Level
    distribution: Mapping[str, float]
    saw: frozenset[Modality]
    parse: str
    abstained: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)
    crisis: bool = False
    shots: tuple[Shot, ...] = ()
    history_dropped: int = 0
    answer: str = ""


def expression_vote(
    distribution: Mapping[str, float], saw: frozenset[Modality], evidence: Mapping[str, str]
) -> Prediction:
    """Returns the vote of a voter that reads expressions, or its abstention when no expression is clear.

    Neutral often wins only because no emotion stands out. That is no evidence that the person feels nothing, and in a
    majority a silent face and a calm voice would outvote the words.

    Args:
        distribution: Probability per class; sums to 1.
        saw: What was perceived.
        evidence: What was measured; kept either way.
    """
    ranked = sorted(distribution, key=distribution.__getitem__, reverse=True)
    if ranked[0] != NEUTRAL or distribution[NEUTRAL] >= NEUTRAL_CLEAR_MIN:
        return Prediction(Level.CLASS, distribution, saw, "classified", evidence=evidence)
    strongest = ", ".join(f"{name} {distribution[name]:.2f}" for name in ranked[:2])
    reason = f"no clear expression: {strongest}"
    return Prediction(Level.CLASS, {}, saw, "classified", abstained=reason, evidence=evidence)


@dataclass(frozen=True)
class Profile:
    """Who the avatar is: `age` child|young|middle-aged|elderly, `gender` female|male, `timbre` high|mid|low.

    `about` is a sentence about the person, `speaking_style` how it talks; both may be empty.
    """

    name: str
    age: str
    gender: str
    timbre: str
    language: str = "en"
    about: str = ""
    speaking_style: str = ""


@dataclass(frozen=True)
class Memory:
    """What the user said earlier, near to what they say now: `similarity` -1 to 1.

    `emotion` is the label they felt then, if known; `turns_ago` is 0 when it was in another conversation; `age_s` is 0
    when unknown.
    """

    text: str
    emotion: str = ""
    turns_ago: int = 0
    age_s: float = 0.0
    similarity: float = 0.0


@dataclass(frozen=True)
class Example:
    """How the avatar answers a message that is near to what the user says now: `similarity` -1 to 1."""

    user_text: str
    user_emotion: str
    reply_text: str
    similarity: float = 0.0


class Act(StrEnum):
    """What a message does."""

    UNREAD = ""
    TELLING = "telling"
    FACT = "fact"
    FAVOUR = "favour"
    ADVICE = "advice"
    SMALLTALK = "smalltalk"
    ABOUT = "about"
    COMPLAINT = "complaint"
    THANKS = "thanks"
    GOODBYE = "goodbye"
    ANSWER = "answer"


@dataclass(frozen=True)
class MemoryUse:
    """What became of a memory: the sentence that refers to it, whether the model read it, or why it was not used."""

    sentence: str = ""
    is_read: bool = False
    unused: str = ""


@dataclass(frozen=True)
class ReplyRequest:
    """What a reply is written from: the message, how the user feels, how the avatar feels, who the avatar is.

    `memories` are in any order, of `examples` the nearest is first. `replies` fit how the message sounds,
    the best first; `may_restate` tells whether its tone bears it that the reply begins with its own words told back.
    `stop` may be set from any thread when nobody waits for the reply any more; the model then stops in mid-sentence.
    """

    message: Message
    user_emotion: str
    reply_emotion: str
    profile: Profile
    seed: int = 0
    memories: tuple[Memory, ...] = ()
    examples: tuple[Example, ...] = ()
    act: Act = Act.UNREAD
    replies: tuple[str, ...] = ()
    may_restate: bool = False
    stop: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)


def check_order(request: ReplyRequest, wheel: Wheel) -> None:
    """Refuses a request that no reply can be written to.

    Raises:
        InvalidRequest: The message has no text, or an emotion is no label of the wheel.
    """
    if not request.message.text.strip():
        raise InvalidRequest("message.text", "is empty; a reply needs words to answer")
    for field_name in ("user_emotion", "reply_emotion"):
        label = getattr(request, field_name)
        if label not in wheel.labels:
            raise InvalidRequest(field_name, f"{label!r}; use one of: {', '.join(wheel.labels)}")


@dataclass(frozen=True)
class ReplySentence:
    """One finished sentence of the reply, ready to be spoken."""

    text: str


@dataclass(frozen=True)
class ReplyRecord:
    """How the reply came about; the last piece of every reply.

    Attributes:
        degraded: Why a stored reply stood in for the writer's: "exemplar" when none of its own could be said; empty
            otherwise.
        candidates: How many were written; 0 by a writer that says stored replies.
        rejected: Why candidates were refused, each as "reason: text"; when none was written, the one reason for that.
        retries: How often the whole reply was begun anew.
        history_dropped: Utterances of the history that the model did not get, counted from the oldest; 0 when it was
            not asked.
        memories: What became of each memory of the request, in its order.
        examples_used: How many of the request's examples the model read, or stood in for its words.
    """

    degraded: str = ""
    candidates: int = 1
    rejected: tuple[str, ...] = ()
    retries: int = 0
    history_dropped: int = 0
    memories: tuple[MemoryUse, ...] = ()
    examples_used: int = 0


@dataclass(frozen=True)
class Transcript:
    """What was said.

    `language` as ISO 639-1, "und" for one that was not recognised; `no_speech`, 0 to 1, is how likely there was none.
    """

    text: str
    language: str
    no_speech: float


@dataclass(frozen=True)
class Card:
    """What a back-end says of itself.

    `digest` is the SHA-256 (hex) of its weights; `writes` are the languages of its replies as ISO 639-1, none for any.
    """

    model: str
    digest: str
    perceives: frozenset[Modality]
    level: Level
    prompt_version: str = ""
    writes: tuple[str, ...] = ()


class Backend(Protocol):
    """One loaded model. Calls may block; one thread calls at a time."""

    card: Card

    def predict(self, message: Message) -> Prediction:
        """Votes on the emotion of the speaker of `message`. Abstains rather than guess."""

    def close(self) -> None:
        """Frees the model."""


@runtime_checkable
class Writer(Protocol):
    """A back-end that can also write the reply."""

    def write(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        """Writes the reply, sentence by sentence, the record last.

        Closing the iterator stops the model; setting `request.stop` does so even while a sentence is being written,
        and the iterator then ends without a record.
        """


@runtime_checkable
class Transcriber(Protocol):
    """A back-end that can also tell what was said."""

    def transcribe(self, audio: NDArray[np.float32]) -> Transcript:
        """Transcribes float32 (n,) mono audio at `AUDIO_RATE_HZ`."""


@dataclass(frozen=True)
class Answer:
    """A prediction brought to the labels of the wheel; all but `prediction` is empty on abstention."""

    prediction: Prediction
    distribution: Mapping[str, float]
    label: str
    face_class: str


def answer_of(prediction: Prediction, wheel: Wheel) -> Answer:
    """Spreads a vote over classes to the labels by the wheel, and names the winner.

    Raises:
        BackendFailed: The model's answer is not a distribution over its level's names.
    """
    if prediction.abstained:
        return Answer(prediction, {}, "", "")
    names = set(wheel.labels) if prediction.level is Level.LABEL else set(wheel.classes)
    total = sum(prediction.distribution.values())
    if not prediction.distribution.keys() <= names or not math.isclose(total, 1, abs_tol=1e-3):
        raise BackendFailed(f"the model's vote is not a distribution over the wheel's {prediction.level} names")
    if prediction.level is Level.CLASS:
        fine = wheel.spread(prediction.distribution)
    else:
        fine = {name: prediction.distribution.get(name, 0.0) for name in wheel.labels}
    coarse = wheel.gather(fine)
    face_class = max(coarse, key=coarse.__getitem__)
    label = max((name for name in fine if wheel.label(name).coarse == face_class), key=fine.__getitem__)
    return Answer(prediction, fine, label, face_class)
