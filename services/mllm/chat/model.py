"""What a chat model must be able to do to sit on the panel and to write replies.

A back-end of a model family implements `ChatModel`, and `Scorer` or `Chooser` where its runtime allows;
`services.mllm.chat.backend.ChatBackend` makes a voter and a writer of it.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from services.mllm.chat.marks import without_marks
from services.mllm.domain import Frame, Modality


@dataclass(frozen=True)
class Turn:
    """One message of a chat, in the model's own format only once it reaches the model.

    Attributes:
        role: Whose it is. A system turn comes first and only once.
        text: What it says, without marks of any model: words of outside stand in it (`marks.without_marks`).
        audio: float32 (n,), mono, `AUDIO_RATE_HZ`, -1 to 1. Only the last turn has it, and only for a model that hears.
        frames: In order of time. Only the last turn has them, and only for a model that sees.
    """

    role: Literal["system", "user", "assistant"]
    text: str
    audio: NDArray[np.float32] | None = None
    frames: tuple[Frame, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", without_marks(self.text))


@dataclass(frozen=True)
class Sampling:
    """How text is drawn: `temperature` 0 takes the likeliest token; the same seed gives the same text."""

    tokens_max: int
    temperature: float
    top_p: float
    seed: int


@dataclass(frozen=True)
class Choice:
    """An answer out of a set.

    Attributes:
        text: What the model wrote.
        guided: Whether it could write nothing but a member of the set.
        log_likelihoods: Of members of the set, where the model tells; need not sum to 1 nor hold all. Empty otherwise.
    """

    text: str
    guided: bool
    log_likelihoods: Mapping[str, float] = field(default_factory=dict)


class ChatModel(Protocol):
    """One loaded model. Calls may block; one thread calls at a time.

    Attributes:
        name: Of the model ("Qwen2.5-7B-Instruct").
        digest: SHA-256 (hex) of its weights; of a remote model, whatever identifies it.
        perceives: What it can be given.
    """

    name: str
    digest: str
    perceives: frozenset[Modality]

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields the answer to `turns` piece by piece. Closing the iterator, or `stopped`, stops the model.

        What the model thinks aloud stands between <think> and </think>, the first mark included where its template
        writes that; it is neither said nor counted as an answer.

        Raises:
            BackendFailed: The model failed.
        """

    def close(self) -> None:
        """Frees the model."""


@runtime_checkable
class Scorer(Protocol):
    """A chat model that can tell how likely an answer is."""

    def log_likelihoods(
        self, turns: Sequence[Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        """Returns the log-likelihood of each answer as the whole answer, its end included.

        The prompt is read once; the answers are scored together.
        """


@runtime_checkable
class Chooser(Protocol):
    """A chat model whose answer can be held to a set, by a grammar or by guided decoding."""

    def choose(self, turns: Sequence[Turn], choices: Sequence[str], stopped: Callable[[], bool]) -> Choice:
        """Returns one of `choices`, or what the model wrote instead where its server ignored the set."""


def pieces_of(
    model: ChatModel, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]
) -> Generator[str, None, None]:
    """Yields what `model` writes, and asks `stopped` at every piece; closing this closes the model's iterator."""
    pieces = model.stream(turns, sampling, stopped)
    try:
        for piece in pieces:
            if stopped():
                return
            yield piece
    finally:
        if close := getattr(pieces, "close", None):
            close()
