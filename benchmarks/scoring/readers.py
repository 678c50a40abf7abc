"""Readers of finished replies: which emotion words, voice and face carry.

None of them makes replies, and none is a stranger in full; `docs/expressiveness.md` says how independent each is.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import av
import numpy as np
from numpy.typing import NDArray

import emotions
from benchmarks.expressiveness.faces import FPS, JUDGED_EVERY, SETTLED_S
from benchmarks.expressiveness.judges import Judge, WhatTheFace, cut_out, rise, strongest
from perception.face import FaceReader
from perception.voice import VoiceReader, semitones
from services.common.errors import InvalidRequest
from services.common.images import decode_image
from services.mllm.backends import text_classifier
from services.mllm.domain import Message
from services.tts.recordings import read_voice

Numbers = NDArray[np.float64]


class Unreadable(Exception):
    """A reader can say nothing of a clip."""


@dataclass(frozen=True)
class Voice:
    """Voice of a clip.

    Attributes:
        cues: Pitch, range, level, brightness and pace, float64 (5,), as `voices.MEASURES`.
        voiced_fraction: Share of the speech that has a pitch.
    """

    cues: Numbers
    voiced_fraction: float


class Readers(Protocol):
    """What reads replies."""

    def words(self, text: str) -> str:
        """Return the class that a text carries."""

    def voice(self, wav: bytes) -> Voice:
        """Measure the voice of a clip.

        Raises:
            Unreadable: There is no speech in it.
        """

    def face(self, film: bytes, portrait: bytes) -> str:
        """Return the class that rose most in a film, compared with the face at rest.

        Raises:
            Unreadable: There is no face in it.
        """


def load(models_dir: Path) -> Readers:
    """Load the readers: the text voter, SwiftF0 for the rule of voices, and the network `what-the-face`.

    Args:
        models_dir: The model folder, with `make models WITH=judges`.

    Raises:
        FileNotFoundError: A model is missing.
    """
    return ModelReaders(FaceReader(models_dir), WhatTheFace(models_dir))


class ModelReaders:
    """Readers that are models.

    Args:
        faces: Finds faces.
        judge: Knows expressions.
    """

    def __init__(self, faces: FaceReader, judge: Judge) -> None:
        self._text, self._wheel = text_classifier.create(), emotions.load()
        self._voice, self._faces, self._judge = VoiceReader(), faces, judge

    def words(self, text: str) -> str:
        """Return the class that a text carries."""
        classes = self._wheel.gather(self._text.predict(Message(text=text)).distribution)
        return max(classes, key=lambda name: classes[name])

    def voice(self, wav: bytes) -> Voice:
        """Measure the voice of a clip; its pace is in syllables, for the words are others in every clip."""
        try:
            heard = read_voice(wav, "clip")
            found = self._voice.read(heard.samples, heard.sample_rate_hz)
        except (InvalidRequest, ValueError) as error:
            raise Unreadable(f"speech: {error}") from error
        pitch, pace = semitones(found.pitch_hz, 100.0), np.log(found.rate_hz)
        cues = np.array([pitch, found.pitch_range_semitones, found.level_dbfs, found.tilt_db_octave, pace])
        if not np.isfinite(cues).all():
            raise Unreadable("speech: nobody is heard to speak")
        return Voice(cues, found.voiced_fraction)

    def face(self, film: bytes, portrait: bytes) -> str:
        """Return the class that rose most in a film, compared with the portrait."""
        try:
            with av.open(io.BytesIO(film), mode="r") as file:
                frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
        except (av.error.FFmpegError, IndexError) as error:
            raise Unreadable(f"video: {error}") from error
        if not (judged := frames[round(SETTLED_S * FPS) :: JUDGED_EVERY]):
            raise Unreadable("video: it ends before the face has settled")
        shown = np.mean([self._look(frame.astype(np.uint8)) for frame in judged], axis=0)
        return strongest(rise(shown, self._look(decode_image(portrait, "portrait"))))

    def _look(self, image: NDArray[np.uint8]) -> Numbers:
        if not (faces := self._faces.read(image)):
            raise Unreadable("video: no face is found")
        return self._judge.classify(cut_out(image, faces[0]))
