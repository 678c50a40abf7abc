"""Turns what the user sent into what the voters get: media decoded once, speech transcribed once."""

import asyncio
import time
from dataclasses import dataclass

from e3rg.mllm.v1 import mllm_pb2 as mllm
from services.common.errors import InvalidRequest
from services.common.images import encode_jpeg
from services.common.inference import InferenceQueue
from services.common.media import pcm_of_float
from services.understanding.media import Limits, Media, read_audio, read_video
from services.understanding.voters import MllmVoter

NO_SPEECH_MAX = 0.6
"""Above this the recogniser itself doubts that anything was said; Whisper then tends to invent words."""


@dataclass(frozen=True)
class Perceived:
    """What was received.

    Attributes:
        text: Typed, or transcribed.
        transcribed: Whether it was transcribed.
        audio: PCM s16le, mono, 16000 Hz; empty when there is none.
        frames: JPEG frames with their times.
        notes: What was altered or is missing in the media.
        decode_s: Seconds spent decoding.
        transcribe_s: Seconds spent transcribing.
    """

    text: str
    transcribed: bool
    audio: bytes
    frames: tuple[mllm.Frame, ...]
    notes: tuple[str, ...]
    decode_s: float
    transcribe_s: float


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

    async def perceive(self, text: str, audio_file: bytes, video_file: bytes) -> Perceived:
        """Decodes the files and finds the words of the message.

        Raises:
            InvalidRequest: A file cannot be used, or the message holds no words at all.
            ServiceError: The transcriber cannot be reached, or failed.
        """
        started_s = time.monotonic()
        media = await self._decode(audio_file, video_file)
        pcm = pcm_of_float(media.audio.samples) if media.audio else b""
        frames = tuple(mllm.Frame(time_s=frame.time_s, jpeg=encode_jpeg(frame.image)) for frame in media.frames)
        decoded_s = time.monotonic()
        transcribed = not text.strip() and bool(pcm)
        if transcribed:
            transcript = await self.transcriber.transcribe(pcm)
            text = "" if transcript.no_speech > NO_SPEECH_MAX else transcript.text.strip()
        if not text.strip():
            raise InvalidRequest(*_wordless(bool(audio_file), bool(video_file), transcribed))
        return Perceived(
            text=text.strip(),
            transcribed=transcribed,
            audio=pcm,
            frames=frames,
            notes=media.notes,
            decode_s=decoded_s - started_s,
            transcribe_s=time.monotonic() - decoded_s if transcribed else 0.0,
        )

    async def _decode(self, audio_file: bytes, video_file: bytes) -> Media:
        limits = Limits(frames_max=self.frames_max)
        nothing = Media(None, (), ())
        video, audio = await asyncio.gather(
            self.decoder.run(lambda: read_video(video_file, limits) if video_file else nothing),
            self.decoder.run(lambda: read_audio(audio_file, limits) if audio_file else nothing),
        )
        return Media(audio.audio or video.audio, video.frames, video.notes + audio.notes)


def _wordless(has_audio: bool, has_video: bool, transcribed: bool) -> tuple[str, str]:
    if transcribed:
        return ("audio" if has_audio else "video", "no speech was recognised in it; speak up, or add text")
    if has_video:
        return "video", "it has no sound, so there are no words to answer; add text or an audio file"
    return "text", "the message is empty; send text, audio or video"
