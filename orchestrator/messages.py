"""The streams of messages that the pipeline sends to its stages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.video.v1 import video_pb2 as video
from orchestrator.segments import Segment
from services.common.errors import InvalidRequest
from services.common.media import chunks


async def to_understand(
    header: pb.RespondHeader,
    ontology_hash: str,
    media: AsyncIterator[pb.RespondRequest],
    history: Callable[[], Awaitable[list[common.Utterance]]],
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
    yield understanding.UnderstandRequest(context=understanding.UnderstandContext(history=await history()))


async def to_speak(
    identity: memory.Identity, delivery: pb.Delivery, fitted: bytes, reference: bytes, sentences: AsyncIterator[str]
) -> AsyncIterator[tts.SpeakRequest]:
    """Lends the voice, fitted where it was before, then hands the sentences on as they are written."""
    yield tts.SpeakRequest(
        header=tts.SpeakHeader(
            emotion=delivery.emotion,
            style=delivery.voice_style,
            profile=identity.profile,
            voices=[tts.VoiceFile(digest=identity.voice.digest, size_bytes=len(reference))],
            fitted_size_bytes=len(fitted),
        )
    )
    if fitted:
        yield tts.SpeakRequest(fitted=fitted)
    for piece in chunks(reference):
        yield tts.SpeakRequest(voice=piece)
    async for sentence in sentences:
        yield tts.SpeakRequest(sentence=sentence)


@dataclass(frozen=True)
class Scene:
    """What every call for a reply's video says: whose face (`portrait` is its file), and how it feels."""

    identity: memory.Identity
    delivery: pb.Delivery
    portrait: bytes
    sample_rate_hz: int
    seed: int


async def to_animate(
    scene: Scene, quality: str, speech: AsyncIterator[tts.SpeechChunk]
) -> AsyncIterator[video.AnimateRequest]:
    """Lends the portrait, then hands the speech on as it is spoken."""
    for part in _lend(scene, video.AnimateHeader(quality=quality)):
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
    header.portrait_digest = scene.identity.portrait.digest
    header.portrait_size_bytes = len(scene.portrait)
    header.sample_rate_hz = scene.sample_rate_hz
    header.seed = scene.seed
    yield video.AnimateRequest(header=header)
    for piece in chunks(scene.portrait):
        yield video.AnimateRequest(portrait=piece)


def to_history(turns: Iterable[memory.Turn]) -> list[common.Utterance]:
    """Returns past turns as utterances, oldest first."""
    history = []
    for turn in turns:
        user = common.Utterance(speaker=common.SPEAKER_USER, text=turn.user_text, emotion=turn.user_emotion)
        avatar = common.Utterance(speaker=common.SPEAKER_AVATAR, text=turn.reply_text, emotion=turn.reply_emotion)
        history += [user, avatar]
    return history
