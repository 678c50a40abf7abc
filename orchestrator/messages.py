"""The streams of messages that the pipeline sends to its stages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import exemplars_pb2 as exemplars
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.video.v1 import video_pb2 as video
from orchestrator.segments import Segment
from services.common.errors import InvalidRequest
from services.common.media import chunks

RECORDINGS_MAX, RECORDINGS_BYTES_MAX = 8, 16 << 20
"""Limits of a voice service for recordings (`SpeakHeader.voices`)."""
RECALLED_CHARS_MAX = 4000
"""Longest text of an earlier turn that a writer takes."""


async def to_understand(
    header: pb.RespondHeader,
    ontology_hash: str,
    media: AsyncIterator[pb.RespondRequest],
    context: Callable[[], Awaitable[understanding.UnderstandContext]],
    variants: Iterable[understanding.VoterVariant] = (),
    variants_version: int = 0,
) -> AsyncIterator[understanding.UnderstandRequest]:
    """Hands the message on as it arrives, and what was said before once that is recalled.

    Raises:
        InvalidRequest: The caller sent something else than media.
    """
    yield understanding.UnderstandRequest(
        header=understanding.UnderstandHeader(
            text=header.text,
            audio_size_bytes=header.audio_size_bytes,
            video_size_bytes=header.video_size_bytes,
            ontology_hash=ontology_hash,
            seed=header.seed,
            variants=variants,
            variants_version=variants_version,
        )
    )
    async for part in media:
        match part.WhichOneof("part"):
            case "audio":
                yield understanding.UnderstandRequest(audio=part.audio)
            case "video":
                yield understanding.UnderstandRequest(video=part.video)
            case found:
                raise InvalidRequest("part", f"{found or 'nothing'} is out of order; send one header, then media")
    yield understanding.UnderstandRequest(context=await context())


@dataclass(frozen=True)
class Speaker:
    """Whose voice speaks: its recordings by digest, in order, and the voice that was fitted before, if any."""

    profile: common.Profile
    recordings: Mapping[str, bytes]
    fitted: bytes


async def to_speak(
    speaker: Speaker, delivery: pb.Delivery, sentences: AsyncIterator[str]
) -> AsyncIterator[tts.SpeakRequest]:
    """Lends the voice, fitted where it was before, then hands the sentences on as they are written."""
    recordings = speaker.recordings.items()
    yield tts.SpeakRequest(
        header=tts.SpeakHeader(
            emotion=delivery.emotion,
            style=delivery.voice_style,
            profile=speaker.profile,
            voices=[tts.VoiceFile(digest=digest, size_bytes=len(content)) for digest, content in recordings],
            fitted_size_bytes=len(speaker.fitted),
        )
    )
    if speaker.fitted:
        yield tts.SpeakRequest(fitted=speaker.fitted)
    for _, content in recordings:
        for piece in chunks(content):
            yield tts.SpeakRequest(voice=piece)
    async for sentence in sentences:
        yield tts.SpeakRequest(sentence=sentence)


@dataclass(frozen=True)
class Scene:
    """Content of every call for a reply's video: the emotion, and the face.

    Attributes:
        delivery: The emotion and its class.
        portrait: The file.
        portrait_digest: SHA-256 (hex) of it.
        sample_rate_hz: Of the speech.
        seed: Of blinks and head motion.
        rigged: The face as the model rigged it before; empty when it did not.
    """

    delivery: pb.Delivery
    portrait: bytes
    portrait_digest: str
    sample_rate_hz: int
    seed: int
    rigged: bytes = b""


async def to_animate(
    scene: Scene, quality: str, speech: AsyncIterator[tts.SpeechChunk], first_frame: int = 0
) -> AsyncIterator[video.AnimateRequest]:
    """Lends the portrait, then hands the speech on as it is spoken; `first_frame`: pictures that are there already."""
    for part in _lend(scene, video.AnimateHeader(quality=quality, first_frame=first_frame)):
        yield part
    async for chunk in speech:
        yield video.AnimateRequest(speech=video.SpeechChunk(samples=chunk.samples, phonemes=chunk.phonemes))


async def to_animate_segment(scene: Scene, quality: str, segment: Segment) -> AsyncIterator[video.AnimateRequest]:
    """Lends the portrait, then hands on one segment of the speech, which is complete."""
    header = video.AnimateHeader(quality=quality, first_frame=segment.first_frame, duration_s=segment.duration_s)
    for part in _lend(scene, header):
        yield part
    phonemes = segment.phonemes
    for piece in chunks(segment.samples.astype("<i2").tobytes()):
        # All sounds in the first message: the renderer begins when it has the last.
        yield video.AnimateRequest(speech=video.SpeechChunk(samples=piece, phonemes=phonemes))
        phonemes = ()


def _lend(scene: Scene, header: video.AnimateHeader) -> Iterator[video.AnimateRequest]:
    header.emotion.CopyFrom(scene.delivery.emotion)
    header.face_class = scene.delivery.face_class
    header.portrait_digest = scene.portrait_digest
    header.portrait_size_bytes = len(scene.portrait)
    header.rigged_size_bytes = len(scene.rigged)
    header.sample_rate_hz = scene.sample_rate_hz
    header.seed = scene.seed
    yield video.AnimateRequest(header=header)
    for piece in chunks(scene.rigged):
        yield video.AnimateRequest(rigged=piece)
    for piece in chunks(scene.portrait):
        yield video.AnimateRequest(portrait=piece)


def portrait_of(identity: identities.Identity) -> str:
    """Returns the digest of the identity's face: its first portrait."""
    return next(file.digest for file in identity.references if file.kind == identities.REFERENCE_KIND_PORTRAIT)


def voices_of(identity: identities.Identity) -> list[str]:
    """Returns the digests of the recordings of the identity's voice: of many, as many as a voice service takes."""
    digests: list[str] = []
    room_bytes = RECORDINGS_BYTES_MAX
    for file in identity.references:
        if file.kind == identities.REFERENCE_KIND_VOICE and file.size_bytes <= room_bytes:
            digests.append(file.digest)
            room_bytes -= file.size_bytes
    return digests[:RECORDINGS_MAX]


def to_history(turns: Iterable[memory.Turn]) -> list[common.Utterance]:
    """Returns past turns as utterances, oldest first."""
    history = []
    for turn in turns:
        user = common.Utterance(speaker=common.SPEAKER_USER, text=turn.user_text, emotion=turn.user_emotion)
        avatar = common.Utterance(speaker=common.SPEAKER_AVATAR, text=turn.reply_text, emotion=turn.reply_emotion)
        history += [user, avatar]
    return history


def to_memories(hits: Iterable[memory.Hit], now_s: float) -> list[mllm.Memory]:
    """Returns what the user said earlier, as the writer takes it."""
    return [
        mllm.Memory(
            text=hit.turn.user_text[:RECALLED_CHARS_MAX],
            emotion=hit.turn.user_emotion,
            turns_ago=hit.turns_ago,
            age_s=max(0.0, now_s - hit.turn.said_at_s),
            similarity=hit.similarity,
        )
        for hit in hits
    ]


def to_examples(hits: Iterable[exemplars.ExemplarHit]) -> list[mllm.Example]:
    """Returns how such messages are answered, as the writer takes it."""
    return [
        mllm.Example(
            user_text=hit.exemplar.user_text,
            user_emotion=hit.exemplar.user_emotion,
            reply_text=hit.exemplar.reply_text,
            similarity=hit.similarity,
        )
        for hit in hits
    ]
