"""A voter and a lead with set answers.

Like every fake, each calls `before` with the name of the operation first (see `tests.fakes`).
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from services.mllm import domain as mllm
from tests.fakes import Closing, go_on


class FakeVoter:
    """`services.mllm.domain.Backend`: says `prediction` to every message."""

    def __init__(self, distribution: Mapping[str, float], level: mllm.Level = mllm.Level.LABEL) -> None:
        everything = frozenset(mllm.Modality)
        self.card = mllm.Card("fake voter", "v" * 64, everything, level, "prompt-1")
        self.prediction = mllm.Prediction(
            level, distribution, frozenset({mllm.Modality.TEXT}), "scored", evidence={"words": "counted"}
        )
        self.messages: list[mllm.Message] = []
        self.before: Callable[[str], None] = go_on

    def abstain(self, reason: str) -> None:
        """Makes it abstain from now on."""
        self.prediction = mllm.Prediction(self.card.level, {}, frozenset(), "scored", abstained=reason)

    def predict(self, message: mllm.Message) -> mllm.Prediction:
        self.messages.append(message)
        self.before("predict")
        return self.prediction

    def close(self) -> None:
        self.before("close")


class FakeLead(FakeVoter):
    """A voter that also writes, `sentences` and then `record`, and hears `transcript`."""

    def __init__(self, distribution: Mapping[str, float]) -> None:
        super().__init__(distribution)
        self.sentences: tuple[str, ...] = ("I am sorry to hear that.", "Tell me more.")
        self.record = mllm.ReplyRecord(candidates=3, rejected=("echo: I lost my job.",))
        self.transcript = mllm.Transcript("I lost my job.", "en", 0.1)
        self.orders: list[mllm.ReplyRequest] = []
        self.heard: list[NDArray[np.float32]] = []
        self.stopped = Closing()

    def write(self, request: mllm.ReplyRequest) -> Iterator[mllm.ReplySentence | mllm.ReplyRecord]:
        self.orders.append(request)
        try:
            for text in self.sentences:
                self.before("write")
                yield mllm.ReplySentence(text)
            self.before("record")
            yield self.record
        finally:
            self.stopped.set()

    def transcribe(self, audio: NDArray[np.float32]) -> mllm.Transcript:
        self.heard.append(audio)
        self.before("transcribe")
        return self.transcript
