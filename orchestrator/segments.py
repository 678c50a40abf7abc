"""Cuts a reply's speech into segments, for a renderer that takes a few seconds at once, where nobody sees the seam."""

import math
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2 as video

AROUND_S = 0.06
"""What must be quiet before and after a cut. The video's encoder leaves out up to 21 ms of sound after a cut and fades
the next 21 ms in (`services/video/encoding.py`), so nothing of it is heard."""
QUIET = 10 ** (-38 / 20)
"""What counts as quiet, relative to the loudest moment of the reply so far: breath and hum of a voice, but no sound."""

INSTANT_S = 1e-4
"""Sounds shorter than this are left by rounding."""


@dataclass(frozen=True)
class Segment:
    """A stretch of the reply, cut at whole frames of video.

    Attributes:
        number: From 1.
        first_frame: Frames of video before it.
        start_s: Seconds of the reply before it.
        samples: int16 (n,), mono.
        sample_rate_hz: Samples per second.
        phonemes: Times count from the start of the segment; a sound across a cut is in both.
    """

    number: int
    first_frame: int
    start_s: float
    samples: NDArray[np.int16]
    sample_rate_hz: int
    phonemes: Sequence[common.Phoneme]

    @property
    def duration_s(self) -> float:
        """Its length."""
        return len(self.samples) / self.sample_rate_hz


async def cut(
    speech: AsyncIterator[tts.SpeechChunk], sample_rate_hz: int, renderer: video.GetModelResponse
) -> AsyncIterator[Segment]:
    """Yields the segments of a reply, each as soon as its speech is complete.

    Args:
        speech: The reply as it is spoken.
        sample_rate_hz: Its rate.
        renderer: Its frames per second, and how much speech it takes at once.
    """
    cutter = Cutter(sample_rate_hz, renderer)
    async for chunk in speech:
        for segment in cutter.add(np.frombuffer(chunk.samples, "<i2"), chunk.phonemes):
            yield segment
    for segment in cutter.finish():
        yield segment


@dataclass
class Cutter:
    """Takes speech as it comes and gives the segments that are complete.

    The first segment ends at the first pause that leaves it long enough, so that its rendering begins early. The
    others do too, but only where as much as the shortest segment is left behind them. Of several pauses after which the
    segment costs the same, the last one is taken. Without a pause, the cut falls on the quietest place.
    """

    sample_rate_hz: int
    renderer: video.GetModelResponse
    _samples: NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))
    _phonemes: list[common.Phoneme] = field(default_factory=list)
    _levels: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    _number: int = 0
    _first_frame: int = 0
    _loudest: float = 0.0

    def __post_init__(self) -> None:
        # A cut falls on a frame of video that begins with a sample: then no segment is part of a sample too long.
        renderer = self.renderer
        self._step_frames = renderer.fps // math.gcd(self.sample_rate_hz, renderer.fps)
        self._step = self.sample_rate_hz * self._step_frames // renderer.fps
        self._around = round(AROUND_S * self.sample_rate_hz)
        self._most = max(1, int(renderer.segment_max_s * self.sample_rate_hz / self._step))
        self._least, self._first = (
            min(max(1, math.ceil(seconds * self.sample_rate_hz / self._step)), self._most)
            for seconds in (renderer.segment_min_s, renderer.segment_first_s)
        )
        self._window = max(1, int(renderer.segment_window_s * self.sample_rate_hz / self._step))

    def add(self, samples: NDArray[np.int16], phonemes: Sequence[common.Phoneme]) -> Iterator[Segment]:
        """Takes the next stretch; times of the sounds that begin in it count from the start of the reply."""
        self._samples = np.append(self._samples, samples)
        self._phonemes += phonemes
        self._listen(len(self._samples) - self._around)
        while steps := self._place():
            yield self._take(steps * self._step)

    def finish(self) -> Iterator[Segment]:
        """Gives what remains."""
        self._listen(len(self._samples))
        while steps := self._place(ended=True):
            yield self._take(steps * self._step)
        if len(self._samples):
            yield self._take(len(self._samples))

    def _listen(self, until: int) -> None:
        """Notes how loud it is around each new line of the grid, up to the sample `until`, as root mean square."""
        lines = np.arange(len(self._levels), until // self._step + 1) * self._step
        if not len(lines):
            return
        begin = max(int(lines[0]) - self._around, 0)
        energy = np.concatenate(([0.0], np.cumsum(np.square(self._samples[begin:].astype(np.float64)))))
        start = np.maximum(lines - self._around, 0) - begin
        end = np.minimum(lines + self._around, len(self._samples)) - begin
        levels = np.sqrt((energy[end] - energy[start]) / np.maximum(end - start, 1))
        self._levels = np.append(self._levels, levels)
        self._loudest = max(self._loudest, float(levels.max()))

    def _place(self, ended: bool = False) -> int:
        """Where to cut, in steps of the grid from the start of what waits; 0 when not yet, or not again."""
        lines = np.arange(self._least if self._number else self._first, min(self._most + 1, len(self._levels)))
        if not len(lines):
            return 0
        quiet = self._levels <= QUIET * self._loudest
        # A pause that nothing has followed yet may be the end.
        last_loud = int(np.flatnonzero(~quiet)[-1]) if not quiet.all() else 0
        pauses = lines[quiet[lines] & (lines < last_loud)]
        length = len(self._samples) // self._step
        left_behind = self._least if self._number or ended else 0
        good = pauses[pauses + left_behind <= length]
        border = min(-(-int(good[0]) // self._window) * self._window, self._most) if len(good) else 0
        must = len(self._levels) > self._most + left_behind + 1
        if len(good) and (ended or must or (last_loud > border and border + left_behind <= length)):
            return int(good[good <= border][-1])
        if len(self._samples) <= self._most * self._step if ended else not must:
            return 0
        # It must be cut now: rather in a pause, and with a short end left, than in a word.
        return int(pauses[0] if len(pauses) else lines[np.argmin(self._levels[lines])])

    def _take(self, count: int) -> Segment:
        start_s = self._first_frame / self.renderer.fps
        end_s = start_s + count / self.sample_rate_hz
        mine = [_part(sound, start_s, end_s) for sound in self._phonemes if sound.start_s < end_s - INSTANT_S]
        self._number += 1
        segment = Segment(
            self._number, self._first_frame, start_s, self._samples[:count], self.sample_rate_hz, tuple(mine)
        )
        self._samples = self._samples[count:]
        self._levels = self._levels[count // self._step :]
        self._phonemes = [sound for sound in self._phonemes if sound.start_s + sound.duration_s > end_s + INSTANT_S]
        self._first_frame += count // self._step * self._step_frames
        return segment


def _part(sound: common.Phoneme, start_s: float, end_s: float) -> common.Phoneme:
    """What of a sound lies between the two, in time from the first."""
    begins_s, ends_s = max(sound.start_s, start_s), min(sound.start_s + sound.duration_s, end_s)
    return common.Phoneme(
        symbol=sound.symbol, viseme=sound.viseme, start_s=begins_s - start_s, duration_s=max(0.0, ends_s - begins_s)
    )
