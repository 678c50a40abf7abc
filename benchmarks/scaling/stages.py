"""Stand-ins for the models of a turn: a writer and a voice that give a set reply, a renderer that takes its time."""

import math
import re
import time
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.scaling import load, renderer
from benchmarks.segments import WaitingBackend
from services.mllm import domain as mllm
from services.tts import domain as tts
from services.video.domain import Expression, Frame, Performance, Progress, Rig, Segments, Speech
from tests.fake_voice import FakeVoice
from tests.fake_voters import FakeLead

STEPS_PER_S = 2
"""Signs of progress that a renderer gives for each second of its work."""


class Writer(FakeLead):
    """Answers the message `7` with the sentences of the seventh reply."""

    def write(self, request: mllm.ReplyRequest) -> Iterator[mllm.ReplySentence | mllm.ReplyRecord]:
        """Yield the sentences, then the record."""
        for number, _ in enumerate(load.speech(int(request.message.text))):
            yield mllm.ReplySentence(f"Sentence {number} of {request.message.text}.")
        yield self.record


class Voice(FakeVoice):
    """Speaks these sentences."""

    sample_rate_hz = load.RATE_HZ

    def speak(self, texts: Sequence[str], voice: tts.Voice, delivery: tts.Delivery) -> Iterator[tts.Speech]:
        """Yield each sentence in one stretch."""
        for text in texts:
            number, reply = (int(found) for found in re.findall(r"\d+", text))
            samples = load.speech(reply)[number]
            phonemes = (tts.Phoneme("a", "aa", 0.0, len(samples) / load.RATE_HZ),)
            yield tts.Speech(samples, load.RATE_HZ, phonemes, {}, ends_text=True)


class Renderer(WaitingBackend):
    """Takes the time that DICE-Talk is said to take, `speed` times faster, and counts it.

    Args:
        name: Name of the model, by which the metrics of several in one process are told apart.
        speed: Seconds of the day that pass in one.
    """

    fps = load.FPS
    size_px = 32
    qualities = tuple(renderer.TIERS)
    segments: Segments | None = Segments(*load.SEGMENTS)

    def __init__(self, name: str, speed: float) -> None:
        super().__init__(work=0.0)
        self.model = name
        self.speed = speed
        self.busy_s = 0.0
        self.tiers = dict.fromkeys(self.qualities, 0)

    def cost_s(self, duration_s: float, quality: str) -> float:
        """Return the seconds that it will take."""
        return renderer.cost_s(duration_s, quality) / self.speed

    def perform(self, rig: Rig, expression: Expression, seed: int, quality: str) -> Performance:
        """Begin a segment."""
        return _Rendering(self, quality)


class _Rendering:
    """One segment."""

    def __init__(self, backend: Renderer, quality: str) -> None:
        self._backend, self._quality = backend, quality
        self._duration_s = 0.0

    def feed(self, speech: Speech) -> Iterator[Frame | Progress]:
        """Take speech; show nothing yet."""
        self._duration_s += len(speech.samples) / speech.sample_rate_hz
        return iter(())

    def finish(self) -> Iterator[Frame | Progress]:
        """Wait, then give all frames."""
        backend = self._backend
        backend.tiers[self._quality] += 1
        cost_s = backend.cost_s(self._duration_s, self._quality)
        steps = max(1, round(cost_s * STEPS_PER_S))
        began_s = time.monotonic()
        for step in range(1, steps + 1):
            time.sleep(max(0.0, began_s + cost_s * step / steps - time.monotonic()))
            backend.busy_s += cost_s / steps * backend.speed
            yield Progress(step / steps)
        frame = np.zeros((backend.size_px, backend.size_px, 3), np.uint8)
        for _ in range(math.ceil(self._duration_s * backend.fps - 1e-6)):
            yield frame
