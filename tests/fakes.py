"""Fakes of the ports. They keep the port's promises, and can be told to fail or to do something in between.

Each calls `before` with the name of the operation first. What stands there may raise, or be a `Gate` that holds the
fake until the test opens it: a fake is late for as long as the test wants, and nobody sleeps.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from services.common.errors import InvalidRequest
from services.mllm import domain as mllm
from services.mllm.chat import model as chat
from services.tts import domain as tts
from services.video import domain as video

PATIENCE_S = 20.0
"""A test that waits longer than this for something has failed."""


def go_on(*_: str) -> None:
    """What a fake does before each operation unless it is told otherwise: nothing."""


def fail(error: Exception) -> Callable[..., None]:
    """Returns a `before` that raises `error`."""

    def raising(*_: str) -> None:
        raise error

    return raising


class Gate:
    """A `before` that holds a fake.

    Args:
        operation: The only one that is held; empty holds all.
        after: How many it lets through first.
    """

    def __init__(self, operation: str = "", after: int = 0) -> None:
        self.came = 0
        self._operation = operation
        self._after = after
        self._reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, operation: str, *_: str) -> None:
        if self._operation not in ("", operation):
            return
        self.came += 1
        if self.came > self._after:
            self._reached.set()
            assert self._open.wait(PATIENCE_S), "the gate was never opened"

    async def reached(self) -> None:
        """Waits until a fake stands before the gate."""
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S), "nobody came to the gate"

    def open(self) -> None:
        """Lets everyone through from now on."""
        self._open.set()


class Closing:
    """Tells when an iterator that a fake gave out was closed or came to its end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def happened(self) -> None:
        """Waits for it."""
        assert await asyncio.to_thread(self._event.wait, PATIENCE_S), "the iterator was never closed"


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


class FakeVoice:
    """`services.tts.domain.Backend`: half a second of a tone for every sentence between full stops."""

    model = "fake voice"
    digest = "5" * 64
    fitting = 1
    sample_rate_hz = 16_000
    languages: tuple[str, ...] = ("en",)
    texts_max = 1
    sentence_s = 0.5
    pause_s = 0.0
    crescendo = 0
    """By how much each sentence of a voice's life is louder than the one before."""

    def __init__(self) -> None:
        self.styles: tuple[str, ...] = ("default", "friendly", "sad", "cheerful")
        self.loudness = 8000
        self.prepared: list[tuple[tts.VoiceReference, tts.Profile]] = []
        self.restored: list[bytes] = []
        self.asked: list[list[str]] = []
        self.spoken: list[tuple[str, tts.Delivery]] = []
        self.before: Callable[[str], None] = go_on
        self.stopped = Closing()

    def check(self, reference: tts.VoiceReference) -> None:
        self.before("check")
        if not reference.samples.any():
            raise InvalidRequest("voice", "it is silent; send a recording of speech")

    def prepare(self, references: Sequence[tts.VoiceReference], profile: tts.Profile) -> tts.Voice:
        self.before("prepare")
        for reference in references:
            self.check(reference)
            self.prepared.append((reference, profile))
        return object()

    def pack(self, voice: tts.Voice) -> bytes:
        return b"a fitted voice"

    def unpack(self, content: bytes) -> tts.Voice:
        if content != b"a fitted voice":
            raise ValueError("not a fitted voice")
        self.restored.append(content)
        return object()

    def speak(self, texts: Sequence[str], voice: tts.Voice, delivery: tts.Delivery) -> Iterator[tts.Speech]:
        self.asked.append(list(texts))
        count = round(self.sentence_s * self.sample_rate_hz)
        tone = np.sin(np.arange(count) * 2 * np.pi * 220 / self.sample_rate_hz)
        pause = np.zeros(round(self.pause_s * self.sample_rate_hz))
        word = (tts.Phoneme("m", "PP", 0.0, 0.2), tts.Phoneme("a", "aa", 0.2, self.sentence_s - 0.2))
        sounds = (*word, tts.Phoneme("", "sil", self.sentence_s, self.pause_s)) if self.pause_s else word
        try:
            for text in texts:
                self.spoken.append((text, delivery))
                pieces = [piece for piece in text.split(".") if piece.strip()]
                if not pieces:
                    raise InvalidRequest("sentence", f"{text!r} holds no sound; send words")
                for number, _ in enumerate(pieces, 1):
                    self.before("speak")
                    last = number == len(pieces)
                    said = np.append(tone * self.loudness, pause)
                    self.loudness += self.crescendo
                    yield tts.Speech(said.astype(np.int16), self.sample_rate_hz, sounds, {"rate": 1.5}, last)
        finally:
            self.stopped.set()

    def close(self) -> None:
        self.before("close")


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


class FakeChatModel:
    """`services.mllm.chat.model.ChatModel`: writes `answers`, one after the other and the last one for ever, word by
    word; what it was asked stands in `asked`. `before("stream")` is called first at every word."""

    name = "fake chat model"
    digest = "c" * 64

    def __init__(self, *answers: str, perceives: frozenset[mllm.Modality] = frozenset({mllm.Modality.TEXT})) -> None:
        self.perceives = perceives
        self.answers = list(answers)
        self.asked: list[tuple[chat.Turn, ...]] = []
        self.samplings: list[chat.Sampling] = []
        self.words: list[str] = []
        self.before: Callable[[str], None] = go_on
        self.stopped = Closing()

    def stream(self, turns: Sequence[chat.Turn], sampling: chat.Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        self.asked.append(tuple(turns))
        self.samplings.append(sampling)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        try:
            for word in re.findall(r"\s*\S+|\s+", answer):
                self.before("stream")
                if stopped():
                    return
                self.words.append(word)
                yield word
        finally:
            self.stopped.set()

    def close(self) -> None:
        self.before("close")


class FakeScorer(FakeChatModel):
    """`Scorer`: tells `likelihoods`, and `floor` for every answer that is not in them."""

    def __init__(self, likelihoods: Mapping[str, float], floor: float = -20.0) -> None:
        super().__init__("I am not asked to write.")
        self.likelihoods, self.floor = likelihoods, floor

    def log_likelihoods(
        self, turns: Sequence[chat.Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        self.before("score")
        self.asked.append(tuple(turns))
        return [self.likelihoods.get(answer, self.floor) for answer in answers]


class FakeChooser(FakeChatModel):
    """`Chooser`: makes `choice`."""

    def __init__(self, choice: chat.Choice) -> None:
        super().__init__("I am not asked to write.")
        self.choice = choice

    def choose(self, turns: Sequence[chat.Turn], choices: Sequence[str], stopped: Callable[[], bool]) -> chat.Choice:
        self.before("choose")
        self.asked.append(tuple(turns))
        return self.choice
