"""A voice that is a tone.

Like every fake, it calls `before` with the name of the operation first (see `tests.fakes`).
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from services.common.errors import InvalidRequest
from services.tts import domain as tts
from tests.fakes import Closing, go_on


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
