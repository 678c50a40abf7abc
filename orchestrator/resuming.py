"""Streams that go on at another replica when theirs is lost; nothing that was handed on is handed on again."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as tts
from services.common.channels import Replay
from services.common.errors import NotReady

LOSSES_MAX = 2
"""Replicas that one stream may lose."""

log = logging.getLogger(__name__)


async def speak_on(
    speak: Callable[[AsyncIterator[str]], AsyncGenerator[tts.SpeakResponse]], sentences: AsyncIterator[str]
) -> AsyncGenerator[tts.SpeakResponse]:
    """Yield the speech of sentences. A sentence that was cut off is spoken again, and goes on where it was cut.

    Args:
        speak: Begins a call that speaks the sentences that it is given.
        sentences: Of the reply, as they are written.

    Raises:
        NotReady: `LOSSES_MAX` replicas and one more were lost.
    """
    replay, done = Replay(sentences), 0
    whole = sent = 0  # Samples of the sentences that are done, and all that were handed on.
    try:
        for left in range(LOSSES_MAX, -1, -1):
            start, place = whole, whole
            try:
                async with (
                    aclosing(_behind(aiter(replay), done)) as rest,
                    aclosing(speak(rest)) as parts,
                ):
                    async for part in parts:
                        if part.HasField("chunk"):
                            chunk, place = part.chunk, place + len(part.chunk.samples) // 2
                            if place <= sent:
                                continue
                            _cut(chunk, sent, place, start)
                            sent = place
                        elif part.HasField("sentence_end"):
                            done, whole = done + 1, place
                        yield part
                return
            except NotReady as error:
                if not (left and replay.can_repeat):
                    raise
                log.warning("a voice was lost, another goes on", extra={"sentence": done + 1, "why": str(error)})
    finally:
        await replay.close()


async def _behind(sentences: AsyncGenerator[str], count: int) -> AsyncGenerator[str]:
    """Yield the sentences without the first `count`."""
    async with aclosing(sentences):
        async for sentence in sentences:
            if count:
                count -= 1
                continue
            yield sentence


def _cut(chunk: tts.SpeechChunk, sent: int, end: int, start: int) -> None:
    """Keep of a chunk, which ends at the sample `end` of the reply, what was not `sent`; its call began at `start`."""
    count, rate_hz = end - sent, chunk.sample_rate_hz
    is_whole = 2 * count == len(chunk.samples)
    chunk.samples = chunk.samples[-2 * count :]
    for phoneme in chunk.phonemes:
        phoneme.start_s += start / rate_hz
    if not is_whole:
        phonemes = [each for each in chunk.phonemes if each.start_s >= sent / rate_hz]
        del chunk.phonemes[:]
        chunk.phonemes.extend(phonemes)


async def speech_after(
    frame: int, fps: int, sample_rate_hz: int, chunks: AsyncGenerator[tts.SpeechChunk]
) -> AsyncGenerator[tts.SpeechChunk]:
    """Yield the speech from the start of a picture on; times of sounds count from there."""
    skipped, start_s = round(frame * sample_rate_hz / fps), frame / fps
    async with aclosing(chunks):
        async for chunk in chunks:
            samples = chunk.samples[2 * skipped :]
            skipped = max(0, skipped - len(chunk.samples) // 2)
            phonemes = [_later(each, start_s) for each in chunk.phonemes if each.start_s + each.duration_s > start_s]
            if samples or phonemes:
                yield tts.SpeechChunk(samples=samples, sample_rate_hz=chunk.sample_rate_hz, phonemes=phonemes)


def _later(phoneme: common.Phoneme, start_s: float) -> common.Phoneme:
    """Return a sound as told from `start_s` on; one that had begun before begins there."""
    begin_s = max(0.0, phoneme.start_s - start_s)
    duration_s = phoneme.start_s + phoneme.duration_s - start_s - begin_s
    return common.Phoneme(symbol=phoneme.symbol, viseme=phoneme.viseme, start_s=begin_s, duration_s=duration_s)
