"""Offers a writer replies that fit what a message does and sounds like."""

import asyncio
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from emotions import Wheel
from services.understanding.reader import BEFORE, Reading
from services.understanding.tones.fits import Fit
from services.understanding.tones.replies import NAME, fitting
from services.understanding.tones.store import Act, Tone

WORKERS = 2
ASKS_NAME = re.compile(
    r"\b(?:what(?:'?s| is)|tell me|(?:may|can) i (?:know|ask)) (?:ur|your) (?:first )?name\b(?! of)"
    r"|\bwhat (?:should|do|can|may|shall) i call (?:you|u)\b",
    re.IGNORECASE,
)
"""Asks what the avatar is called: to the reader that is one question of many about it."""
ACTS = {
    Act.TELLING: mllm.ACT_TELLING,
    Act.FACT: mllm.ACT_FACT,
    Act.FAVOUR: mllm.ACT_FAVOUR,
    Act.ADVICE: mllm.ACT_ADVICE,
    Act.SMALLTALK: mllm.ACT_SMALLTALK,
    Act.ABOUT: mllm.ACT_ABOUT,
    Act.COMPLAINT: mllm.ACT_COMPLAINT,
    Act.THANKS: mllm.ACT_THANKS,
    Act.GOODBYE: mllm.ACT_GOODBYE,
    Act.ANSWER: mllm.ACT_ANSWER,
}


class Reader(Protocol):
    """Reads tones."""

    def read(self, text: str, before: str = "") -> Reading:
        """Return the reading of a text; `before` is what the user said before it."""


@dataclass(frozen=True)
class Offer:
    """What a writer is told of a message, and the record of it."""

    reading: Reading
    tone: Tone
    replies: list[str]

    def fill(self, order: mllm.WriteReplyRequest) -> None:
        """Write it into an order."""
        order.act = ACTS[self.reading.act]
        order.replies[:] = self.replies
        order.may_restate = self.tone.may_restate

    def stamped(self, record: mllm.ReplyRecord) -> mllm.ReplyRecord:
        """Return a record that also tells act and tone."""
        result = mllm.ReplyRecord(act=ACTS[self.reading.act], tone=self.tone.name)
        result.MergeFrom(record)
        return result


def said_before(history: Iterable[common.Utterance]) -> str:
    """Return what the user said last, as a message is read behind it."""
    told = [turn.text for turn in history if turn.speaker == common.SPEAKER_USER]
    return " ".join(told[-BEFORE:])


class Offers:
    """Reads messages in threads of its own.

    Args:
        reader: The tone reader.
        wheel: The emotion wheel.
    """

    def __init__(self, reader: Reader, wheel: Wheel) -> None:
        self._reader, self._wheel = reader, wheel
        self._threads = ThreadPoolExecutor(WORKERS, "tones")

    async def read(self, order: mllm.WriteReplyRequest) -> Reading:
        """Return what an order's message sounds like, and which replies fit it."""
        before = said_before(order.history)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._reader.read, order.text, before)

    def offer(self, order: mllm.WriteReplyRequest, reading: Reading, is_grave: bool = False) -> Offer:
        """Return what the writer of an order is told; nothing glad where the conversation is grave."""
        said = [turn.text for turn in order.history if turn.speaker == common.SPEAKER_AVATAR]
        felt = self._wheel.labels.get(order.user_emotion.label, self._wheel.labels["neutral"])
        name = " ".join(order.profile.name.split())
        if ASKS_NAME.search(order.text.replace("\u2019", "'")):
            named = [reply for reply in reading.fits if NAME in reply]
            reading = replace(reading, fits={**reading.fits, **dict.fromkeys(named, Fit(1.0, 1.0))})
        return Offer(reading, *fitting(reading, felt, name, said, order.seed, is_grave))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)
