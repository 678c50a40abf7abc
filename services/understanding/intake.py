"""Turns what the user sent into what the voters get: media decoded once, speech transcribed once."""

import asyncio
from dataclasses import dataclass

from e3rg.mllm.v1 import mllm_pb2 as mllm
from services.common.errors import InvalidRequest
from services.common.images import encode_jpeg
from services.common.inference import InferenceQueue
from services.common.media import pcm_of_float
from services.understanding.media import Limits, Media, read_audio, read_video
from services.understanding.spelling import spelled
from services.understanding.voters import MllmVoter

NO_SPEECH_MAX = 0.6
"""Above this the recogniser itself doubts that anything was said; Whisper then tends to invent words."""


@dataclass(frozen=True)
class Received:
    """Decoded media.

    Attributes:
        audio: PCM s16le, mono, 16000 Hz; empty when there is none.
        frames: JPEG frames with their times.
        notes: What was altered or is missing.
        cut: Of a file that ends before it says, how much came of how much.
    """

    audio: bytes
    frames: tuple[mllm.Frame, ...]
    notes: tuple[str, ...]
    cut: str


@dataclass(frozen=True)
class Words:
    """What was typed, or else what was said.

    Attributes:
        text: The words.
        transcribed: Whether they were said.
        language: Of speech, as the transcriber tells it; empty for English.
    """

    text: str
    transcribed: bool
    language: str = ""


@dataclass(frozen=True)
class Intake:
    """Decodes and transcribes.

    Attributes:
        transcriber: The voter that can hear.
        decoder: Threads for decoding.
        frames_max: Frames that are kept of a video.
    """

    transcriber: MllmVoter
    decoder: InferenceQueue
    frames_max: int

    async def receive(self, audio_file: bytes, video_file: bytes) -> Received:
        """Decodes the files.

        Raises:
            InvalidRequest: A file cannot be used.
        """
        media = await self._decode(audio_file, video_file)
        return Received(
            audio=pcm_of_float(media.audio.samples) if media.audio else b"",
            frames=tuple(mllm.Frame(time_s=frame.time_s, jpeg=encode_jpeg(frame.image)) for frame in media.frames),
            notes=media.notes,
            cut=media.cut,
        )

    async def words(self, text: str, received: Received) -> Words:
        """Returns the words of the message, transcribed when nothing was typed.

        Raises:
            InvalidRequest: The message holds no words at all.
            ServiceError: The transcriber cannot be reached, or failed.
        """
        if text.strip():
            return Words(spelled(text.strip()), transcribed=False)
        if not received.audio:
            problem, remedy = "it has no sound, so there are no words to answer", "add text or an audio file"
            raise InvalidRequest("video", f"{problem}; {_remedy(received, remedy)}")
        transcript = await self.transcriber.transcribe(received.audio)
        if transcript.no_speech > NO_SPEECH_MAX or not transcript.text.strip():
            field = "video" if received.frames else "audio"
            raise InvalidRequest(field, f"no speech was recognised in it; {_remedy(received, 'speak up, or add text')}")
        language = "" if transcript.language == "en" else transcript.language
        return Words(transcript.text.strip(), transcribed=True, language=language)

    async def _decode(self, audio_file: bytes, video_file: bytes) -> Media:
        limits = Limits(frames_max=self.frames_max)
        nothing = Media(None, (), ())
        video, audio = await asyncio.gather(
            self.decoder.run(lambda: read_video(video_file, limits) if video_file else nothing),
            self.decoder.run(lambda: read_audio(audio_file, limits) if audio_file else nothing),
        )
        cut = audio.cut if audio.audio else video.cut
        return Media(audio.audio or video.audio, video.frames, video.notes + audio.notes, cut)


def _remedy(received: Received, remedy: str) -> str:
    """Returns what to do about words that are missing, which may have been in what did not come of the file."""
    return f"{received.cut}; send the whole file, or add text" if received.cut else remedy
