"""Films replies with the real voice and the real face, in this process: words and an emotion in, a finished MP4 out."""

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import av
import numpy as np
from numpy.typing import NDArray

import emotions
from services.common.images import decode_image
from services.memory.domain import NewIdentity, ReferenceKind
from services.memory.ready import file_of
from services.tts import domain as tts
from services.tts.recordings import read_voice
from services.video import domain as video
from services.video.encoding import FragmentedMp4

LINES = {
    "neutral": "The bus stops by the market at half past eight.",
    "happy": "That is the best news, I am so happy for both of you!",
    "surprised": "Oh my, is that possible? I would never have believed it!",
    "angry": "They broke their promise. That makes me so angry!",
    "fear": "Something moved behind the door, and I am so afraid.",
    "sad": "I am so sorry. I miss him badly too, and so does my mother.",
    "disgusted": "The rotten milk made me sick. It was disgusting!",
    "contempt": "Of course he believes that he is better than simple people.",
}
"""One reply per class. Each has several of p, b and m, the sounds that close the lips."""
SEED = 7


@dataclass(frozen=True)
class Take:
    """One filmed reply.

    Attributes:
        identity: Whose face and voice.
        asked: The class that was asked for, which is a label of the wheel too.
        intensity: 0 to 1; with 0 it is the same words, plainly.
        text: What is said.
        samples: int16 (n,), mono: the speech as it was spoken, before it was encoded.
        sample_rate_hz: Of `samples`.
        visemes: The mouth shapes, timed from the start.
        mp4: The finished file.
    """

    identity: str
    asked: str
    intensity: float
    text: str
    samples: NDArray[np.int16]
    sample_rate_hz: int
    visemes: tuple[video.VisemeSpan, ...]
    mp4: bytes


class Set:
    """Where one identity is filmed.

    Args:
        identity: Portrait, voice and profile.
        voice: The speech model.
        face: The renderer.
    """

    def __init__(self, identity: NewIdentity, voice: tts.Backend, face: video.Backend) -> None:
        self._voice, self._face = voice, face
        self.name = identity.id
        portrait = file_of(identity, ReferenceKind.PORTRAIT)
        self.portrait = decode_image(portrait, "portrait")
        """uint8 (height, width, 3), RGB."""
        self.recording = read_voice(file_of(identity, ReferenceKind.VOICE), "voice")
        """What the voice was fitted to."""
        profile = identity.profile
        self._speaker = voice.prepare(
            [self.recording], tts.Profile(profile.age, profile.gender, profile.timbre, profile.language)
        )
        self._rig = face.prepare(video.Portrait(hashlib.sha256(portrait).hexdigest(), self.portrait))

    def film(self, asked: str, intensity: float) -> Take:
        """Says the line of a class with its voice style and its face, and encodes it as a reply is encoded."""
        style = emotions.load().voice_style(asked, self._voice.styles).name
        stretches = self._voice.speak([LINES[asked]], self._speaker, tts.Delivery(style, intensity))
        speech = list(_placed(list(stretches)))
        rate_hz = speech[0].sample_rate_hz
        file = FragmentedMp4(self._face.size_px, self._face.fps, rate_hz)
        expression = video.Expression(asked, intensity)
        performance = self._face.perform(self._rig, expression, SEED, self._face.qualities[0])
        chunks: list[bytes] = []
        for stretch in speech:
            chunks += file.add((), stretch.samples)
            chunks += file.add(_pictures(performance.feed(stretch)), stretch.samples[:0])
        chunks += file.add(_pictures(performance.finish()), speech[0].samples[:0])
        chunks += file.finish()
        return Take(
            identity=self.name,
            asked=asked,
            intensity=intensity,
            text=LINES[asked],
            samples=np.concatenate([stretch.samples for stretch in speech]),
            sample_rate_hz=rate_hz,
            visemes=tuple(span for stretch in speech for span in stretch.visemes),
            mp4=b"".join(chunks),
        )


def pictures(take: Take) -> Iterator[NDArray[np.uint8]]:
    """Decodes the frames, each uint8 (height, width, 3), RGB."""
    with av.open(io.BytesIO(take.mp4), mode="r") as file:
        for frame in file.decode(video=0):
            yield frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False)


def sound(take: Take) -> tuple[NDArray[np.float32], int]:
    """Decodes the sound: float32 (n,), mono, -1 to 1, from the moment of the first frame on, and its rate in Hz."""
    with av.open(io.BytesIO(take.mp4), mode="r") as file:
        rate_hz = file.streams.audio[0].rate
        samples = np.concatenate([frame.to_ndarray()[0] for frame in file.decode(audio=0)])
    return samples.astype(np.float32), rate_hz


def _placed(stretches: Sequence[tts.Speech]) -> Iterator[video.Speech]:
    """Counts the times of the phonemes from the start of the reply."""
    start_s = 0.0
    for speech in stretches:
        spans = (video.VisemeSpan(sound.viseme, start_s + sound.start_s, sound.duration_s) for sound in speech.phonemes)
        yield video.Speech(speech.samples, speech.sample_rate_hz, tuple(spans))
        start_s += len(speech.samples) / speech.sample_rate_hz


def _pictures(items: Iterator[video.Frame | video.Progress]) -> Iterator[video.Frame]:
    return (item for item in items if not isinstance(item, video.Progress))
