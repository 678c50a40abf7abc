"""Faces that are frames of one colour: one is drawn frame by frame, one is painted in segments.

Like every fake, each calls `before` with the name of the operation first (see `tests.fakes`).
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from services.common.errors import InvalidRequest
from services.video import domain as video
from tests.fakes import Closing, go_on


class FakeFace:
    """`services.video.domain.Backend`: small frames of one colour, which grows greener from frame to frame."""

    model = "fake face"
    digest = "f" * 64
    rigging = 1
    fps = 25
    size_px = 64
    qualities: tuple[str, ...] = ("full",)
    segments: video.Segments | None = None

    def __init__(self) -> None:
        self.classes: tuple[str, ...] = ("neutral", "happy", "sad")
        self.prepared: list[video.Portrait] = []
        self.packed = b"a rigged face"
        self.restored: list[bytes] = []
        self.shown: list[tuple[video.Expression, int]] = []
        self.fed: list[video.Speech] = []
        self.before: Callable[[str], None] = go_on
        self.stopped = Closing()

    def prepare(self, portrait: video.Portrait) -> video.Rig:
        self.before("prepare")
        if not portrait.image.any():
            raise InvalidRequest("portrait", "no face in it; send a photograph of one face")
        self.prepared.append(portrait)
        return object()

    def pack(self, rig: video.Rig) -> bytes:
        return self.packed

    def unpack(self, content: bytes, image: Callable[[], NDArray[np.uint8]]) -> video.Rig:
        self.before("unpack")
        if content != self.packed:
            raise ValueError("not a rigged face")
        self.restored.append(content)
        return object()

    def flaw(self, image: NDArray[np.uint8]) -> str:
        self.before("flaw")
        return "" if image.any() else "no face"

    def cost_s(self, duration_s: float, quality: str) -> float:
        return 0.0

    def perform(self, rig: video.Rig, expression: video.Expression, seed: int, quality: str) -> video.Performance:
        self.shown.append((expression, seed))
        return _FakePerformance(self)

    def close(self) -> None:
        self.before("close")


class _FakePerformance:
    """`services.video.domain.Performance`."""

    def __init__(self, face: FakeFace) -> None:
        self._face = face
        self._fed_s = 0.0
        self._frames = 0

    def feed(self, speech: video.Speech) -> Iterator[NDArray[np.uint8]]:
        self._face.fed.append(speech)
        self._fed_s += len(speech.samples) / speech.sample_rate_hz
        return self._draw(int(self._fed_s * self._face.fps + 1e-6), "feed")

    def finish(self) -> Iterator[NDArray[np.uint8]]:
        return self._draw(int(np.ceil(self._fed_s * self._face.fps - 1e-6)), "finish")

    def _draw(self, until: int, operation: str) -> Iterator[NDArray[np.uint8]]:
        try:
            while self._frames < until:
                self._face.before(operation)
                self._frames += 1
                size_px = self._face.size_px
                yield np.full((size_px, size_px, 3), (200, self._frames % 256, 30), np.uint8)
        finally:
            self._face.stopped.set()


class FakePainter(FakeFace):
    """A face that takes a few seconds of speech at once, and works on all of it in steps before it shows anything.

    It says what that costs (a window is the shortest segment) and really works: each step brings the picture nearer
    to the loudness of the speech. Frames are red by their quality and blue by the loudness of their sound.
    """

    model = "fake painter"
    qualities: tuple[str, ...] = ("fine", "draft")
    window_s = 0.4
    segments: video.Segments | None = video.Segments(first_s=window_s, min_s=window_s, max_s=1.2)
    steps: Mapping[str, int] = {"fine": 8, "draft": 2}
    step_s = 0.01

    def __init__(self) -> None:
        super().__init__()
        self.painted: list[tuple[str, float]] = []
        """Quality and seconds of what was begun."""

    def cost_s(self, duration_s: float, quality: str) -> float:
        return self.steps[quality] * self.step_s * int(np.ceil(duration_s / self.window_s))

    def perform(self, rig: video.Rig, expression: video.Expression, seed: int, quality: str) -> video.Performance:
        self.shown.append((expression, seed))
        return _FakePainting(self, quality)


class _FakePainting:
    """`services.video.domain.Performance`."""

    def __init__(self, face: FakePainter, quality: str) -> None:
        self._face = face
        self._quality = quality
        self._rate_hz = 0
        self._samples = np.empty(0, np.int16)

    def feed(self, speech: video.Speech) -> Iterator[video.Frame | video.Progress]:
        self._face.fed.append(speech)
        self._rate_hz = speech.sample_rate_hz
        self._samples = np.append(self._samples, speech.samples)
        return iter(())

    def finish(self) -> Iterator[video.Frame | video.Progress]:
        face, steps = self._face, self._face.steps[self._quality]
        duration_s = len(self._samples) / self._rate_hz
        face.painted.append((self._quality, duration_s))
        frame = self._rate_hz // face.fps
        count = int(np.ceil(duration_s * face.fps - 1e-6))
        padded = np.pad(self._samples, (0, count * frame - len(self._samples))).reshape(count, frame)
        picture = np.zeros((count, face.size_px, face.size_px))
        try:
            for step in range(steps):
                face.before("step")
                picture += (np.abs(padded).mean(axis=1)[:, None, None] / 64 - picture) / (steps - step)
                yield video.Progress((step + 1) / steps)
            red = 240 - 180 * face.qualities.index(self._quality)
            for level in picture.mean(axis=(1, 2)):
                face.before("frame")
                yield np.full((face.size_px, face.size_px, 3), (red, 60, int(min(level, 255))), np.uint8)
        finally:
            face.stopped.set()
