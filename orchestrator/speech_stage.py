"""Speech of a turn: sentences are spoken as they are written, by the variant of the turn or else by the control."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from orchestrator.flow import watched
from orchestrator.messages import Speaker, to_speak, voices_of
from orchestrator.report import Timing
from orchestrator.resuming import speak_on
from orchestrator.routing import TTS
from orchestrator.turn import Turn
from services.common.errors import NotReady, ServiceError


class SpeechStage:
    """Speaks one reply.

    Args:
        turn: The turn.
        model: Tells the voice that serves now, as its replicas say.
        deliver: Tells how the reply is delivered by the variant that serves now.
    """

    def __init__(
        self, turn: Turn, model: Callable[[], tts.GetModelResponse], deliver: Callable[[], pb.Delivery]
    ) -> None:
        self._turn = turn
        self._model, self._deliver = model, deliver
        self._timing = Timing(0.0)

    async def run(self, identity: identities.Identity) -> None:
        """Speak the sentences of the turn; a failure drops the rest of the speech."""
        turn = self._turn
        if turn.output < pb.OUTPUT_AUDIO:
            return
        try:
            measured = turn.report.stage("speech", "", turn.sentences, turn.speech, lambda: turn.audio_s)
            with measured as self._timing:
                self._timing.variant = turn.chosen[TTS].variant
                await self._speak(identity)
        except ServiceError as error:
            turn.drop("speech", error, pb.OUTPUT_TEXT)
        finally:
            if not turn.rate_hz.done():
                turn.rate_hz.set_result(0)
            turn.speech.end()

    async def _speak(self, identity: identities.Identity) -> None:
        digests = voices_of(identity)
        recordings = {digest: await self._turn.reference(identity, digest) for digest in digests}

        def speak(sentences: AsyncIterator[str]) -> AsyncGenerator[tts.SpeakResponse]:
            return self._call(identity, recordings, sentences)

        async with aclosing(speak_on(speak, aiter(self._turn.sentences))) as parts:
            async for part in parts:
                match part.WhichOneof("part"):
                    case "chunk":
                        self._hand_on(part.chunk)
                    case "ready" if part.ready.fitted:
                        self._turn.keep_derived(identity, digests, self._card(part.ready).digest, part.ready.fitted)

    async def _call(
        self, identity: identities.Identity, recordings: dict[str, bytes], sentences: AsyncIterator[str]
    ) -> AsyncGenerator[tts.SpeakResponse]:
        """Yield what the variant of the turn says.

        Raises:
            NotReady: It is lost, and another replica or the control may go on.
            ServiceError: The speech cannot be had.
        """
        turn = self._turn
        header, memory = turn.header, turn.memory
        self._timing.variant = turn.chosen[TTS].variant
        fitted = await memory.derived(header.tenant, identity, list(recordings), self._model().card.digest)
        request = to_speak(Speaker(identity.profile, recordings, fitted), self._deliver(), sentences)
        spoken = turn.voice.speak(request)
        try:
            async with aclosing(watched("tts", spoken, turn.idle_s, lambda: turn.sentences.last_s)) as parts:
                async for part in parts:
                    if part.WhichOneof("part") == "ready":
                        turn.is_served(TTS, self._card(part.ready), self._timing)
                        self._tell_rate(part.ready.sample_rate_hz)
                    elif part.WhichOneof("part") == "chunk":
                        self._tell_rate(part.chunk.sample_rate_hz)
                    yield part
        except ServiceError as error:
            if turn.move(TTS, error, self._timing):
                raise NotReady(str(error)) from None
            raise

    def _card(self, ready: tts.VoiceReady) -> common.ModelCard:
        """Return the card of the model that speaks; replicas of an older release say it only when they are asked."""
        return ready.card if ready.HasField("card") else self._model().card

    def _tell_rate(self, rate_hz: int) -> None:
        """Note the sample rate, which the video needs; a service of an older release says it with its first chunk."""
        if rate_hz and not self._turn.rate_hz.done():
            self._turn.rate_hz.set_result(rate_hz)

    def _hand_on(self, chunk: tts.SpeechChunk) -> None:
        turn = self._turn
        turn.samples += len(chunk.samples) // 2
        turn.speech.put(chunk)
        turn.keeper.hear(chunk.samples, chunk.sample_rate_hz)
        audio = pb.AudioChunk(samples=chunk.samples, sample_rate_hz=chunk.sample_rate_hz, phonemes=chunk.phonemes)
        turn.report.tell(pb.RespondResponse(audio=audio))
