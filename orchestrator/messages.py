"""The streams of messages that the pipeline sends to its stages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.video.v1 import video_pb2 as video
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
    identity: memory.Identity, delivery: pb.Delivery, reference: bytes, sentences: AsyncIterator[str]
) -> AsyncIterator[tts.SpeakRequest]:
    """Lends the voice, then hands the sentences on as they are written."""
    yield tts.SpeakRequest(
        header=tts.SpeakHeader(
            emotion=delivery.emotion,
            style=delivery.voice_style,
            profile=identity.profile,
            voice_digest=identity.voice.digest,
            voice_size_bytes=len(reference),
        )
    )
    for piece in chunks(reference):
        yield tts.SpeakRequest(voice=piece)
    async for sentence in sentences:
        yield tts.SpeakRequest(sentence=sentence)


async def to_animate(
    identity: memory.Identity,
    delivery: pb.Delivery,
    portrait: bytes,
    sample_rate_hz: int,
    seed: int,
    speech: AsyncIterator[tts.SpeechChunk],
) -> AsyncIterator[video.AnimateRequest]:
    """Lends the portrait, then hands the speech on as it is spoken."""
    yield video.AnimateRequest(
        header=video.AnimateHeader(
            emotion=delivery.emotion,
            face_class=delivery.face_class,
            portrait_digest=identity.portrait.digest,
            portrait_size_bytes=len(portrait),
            sample_rate_hz=sample_rate_hz,
            seed=seed,
        )
    )
    for piece in chunks(portrait):
        yield video.AnimateRequest(portrait=piece)
    async for chunk in speech:
        yield video.AnimateRequest(speech=video.SpeechChunk(samples=chunk.samples, phonemes=chunk.phonemes))


def to_history(turns: Iterable[memory.Turn]) -> list[common.Utterance]:
    """Returns past turns as utterances, oldest first."""
    history = []
    for turn in turns:
        user = common.Utterance(speaker=common.SPEAKER_USER, text=turn.user_text, emotion=turn.user_emotion)
        avatar = common.Utterance(speaker=common.SPEAKER_AVATAR, text=turn.reply_text, emotion=turn.reply_emotion)
        history += [user, avatar]
    return history
