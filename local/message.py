"""Films a person who does not exist saying something: what a user's camera would send, for demonstrations and tests.

`python -m local.message FILE` makes the message that the demonstration answers, with a deployment of its own.
"""

import hashlib
import io
import sys
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.tts.v1 import tts_pb2_grpc
from e3rg.video.v1 import video_pb2 as video
from e3rg.video.v1 import video_pb2_grpc
from local.deployment import Deployment

IDENTITIES = Path(__file__).parent.parent / "services" / "memory" / "identities"
TEXT = "I practised for months, and I failed my driving test again today. I feel like giving up."
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Spoken:
    """Speech: PCM s16le, mono, with its sounds."""

    pcm: bytes
    sample_rate_hz: int
    phonemes: tuple[common.Phoneme, ...]

    @property
    def wav(self) -> bytes:
        """The speech as a WAV file."""
        file = io.BytesIO()
        with wave.open(file, "wb") as sink:
            sink.setnchannels(1)
            sink.setsampwidth(2)
            sink.setframerate(self.sample_rate_hz)
            sink.writeframes(self.pcm)
        return file.getvalue()


def speak(address: str, text: str, identity: str, label: str) -> Spoken:
    """Has the tts service at `address` say `text` in an identity's voice with the emotion `label`."""
    voice = (IDENTITIES / identity / "voice.wav").read_bytes()

    def parts() -> Iterator[tts.SpeakRequest]:
        yield tts.SpeakRequest(
            header=tts.SpeakHeader(
                emotion=_emotion(label),
                style=emotions.load().label(label).style,
                voices=[tts.VoiceFile(digest=hashlib.sha256(voice).hexdigest(), size_bytes=len(voice))],
            )
        )
        yield tts.SpeakRequest(voice=voice)
        yield tts.SpeakRequest(sentence=text)

    with grpc.insecure_channel(address) as channel:
        answers = list(tts_pb2_grpc.TtsServiceStub(channel).Speak(parts(), timeout=TIMEOUT_S))
    chunks = [answer.chunk for answer in answers if answer.WhichOneof("part") == "chunk"]
    return Spoken(
        b"".join(chunk.samples for chunk in chunks),
        chunks[0].sample_rate_hz,
        tuple(phoneme for chunk in chunks for phoneme in chunk.phonemes),
    )


def film(address: str, spoken: Spoken, identity: str, label: str) -> bytes:
    """Has the video service at `address` film an identity saying it with the emotion `label`; returns an MP4 file."""
    portrait = (IDENTITIES / identity / "portrait.png").read_bytes()
    emotion = _emotion(label)

    def parts() -> Iterator[video.AnimateRequest]:
        yield video.AnimateRequest(
            header=video.AnimateHeader(
                emotion=emotion,
                face_class=emotion.face_class,
                portrait_digest=hashlib.sha256(portrait).hexdigest(),
                portrait_size_bytes=len(portrait),
                sample_rate_hz=spoken.sample_rate_hz,
            )
        )
        yield video.AnimateRequest(portrait=portrait)
        yield video.AnimateRequest(speech=video.SpeechChunk(samples=spoken.pcm, phonemes=spoken.phonemes))

    with grpc.insecure_channel(address) as channel:
        answers = video_pb2_grpc.VideoServiceStub(channel).Animate(parts(), timeout=TIMEOUT_S)
        return b"".join(answer.chunk for answer in answers)


def _emotion(label: str) -> common.Emotion:
    wheel = emotions.load()
    row = wheel.label(label)
    return common.Emotion(
        label=label, face_class=row.coarse, intensity=1.0 if label != "neutral" else 0.0, ontology_hash=wheel.digest
    )


if __name__ == "__main__":
    with Deployment(Path(".run/message"), Path(".models")) as deployment:
        said = speak(deployment.components["tts"].address, TEXT, "kenji", "sad")
        Path(sys.argv[1]).write_bytes(film(deployment.components["video"].address, said, "kenji", "sad"))
