"""Choose voice and face of a turn, and learn from their replicas what they can do."""

from collections.abc import Callable, Sequence
from typing import Any

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2 as video
from orchestrator.delivery import Capabilities, check_quality
from orchestrator.routing import TTS, VIDEO
from orchestrator.turn import Turn
from services.common.errors import NotReady, ServiceError
from services.common.variants.choosing import Chosen


class Generators:
    """Voice and face of one turn.

    Args:
        turn: The turn.
        check_wheel: Refuses a service, by its name and the digest of its emotion wheel, that has another wheel.
    """

    def __init__(self, turn: Turn, check_wheel: Callable[[str, str], None]) -> None:
        self._turn, self._check_wheel = turn, check_wheel
        self._learned: dict[Chosen, Sequence[Any]] = {}

    async def reach(self) -> None:
        """Choose them; one that cannot be reached is dropped from the output.

        Raises:
            ServiceError: A service has another emotion wheel, or the caller wishes what there is not.
        """
        turn = self._turn
        for stage, name, needs, without in (
            (TTS, "speech", pb.OUTPUT_AUDIO, pb.OUTPUT_TEXT),
            (VIDEO, "video", pb.OUTPUT_VIDEO, pb.OUTPUT_AUDIO),
        ):
            if turn.output < needs:
                return
            try:
                await self._reach(stage)
            except ServiceError as error:
                turn.chosen.pop(stage, None)
                turn.drop(name, error, without)
        if VIDEO in turn.chosen and turn.header.quality:
            check_quality(turn.header.quality, self._face().qualities)

    async def _reach(self, stage: str) -> None:
        turn = self._turn
        wanted = turn.routing.choose(stage)
        turn.chosen[stage] = await turn.routing.ready(wanted)
        if turn.chosen[stage].variant != wanted.variant:
            turn.tell_moved(stage, wanted.variant, "no replica of it takes calls")
        if not self._models(stage):  # Replicas of an older release say nothing by themselves.
            service = turn.voice if stage == TTS else turn.face
            self._learned[turn.chosen[stage]] = [await service.model()]
        for model in self._models(stage):
            self._check_wheel(stage, model.card.ontology_hash)

    def voice(self) -> tts.GetModelResponse:
        """Return what the voice is that serves now.

        Raises:
            NotReady: It took over from another one, and no replica of it takes calls.
        """
        model: tts.GetModelResponse = self._first(TTS)
        return model

    def renderer(self) -> video.GetModelResponse:
        """Return what the renderer is that serves now.

        Raises:
            NotReady: It took over from another one, and no replica of it takes calls.
        """
        model: video.GetModelResponse = self._first(VIDEO)
        return model

    def capabilities(self) -> Capabilities:
        """Return what voice and face have that serve now; nothing of one that cannot be reached."""
        return Capabilities(_in_all([voice.styles for voice in self._models(TTS)]), tuple(self._face().face_classes))

    def languages(self) -> Sequence[str]:
        """Return the languages that the voice speaks, ISO 639-1; none where it cannot be reached or does not tell."""
        return _in_all([voice.languages for voice in self._models(TTS)])

    def _first(self, stage: str) -> Any:
        if not (models := self._models(stage)):
            problem = self._turn.channel(stage).replicas.problem
            raise NotReady(f"{stage}: {problem or 'no replica says which model it has'}")
        return models[0]

    def _face(self) -> video.GetModelResponse:
        return next(iter(self._models(VIDEO)), video.GetModelResponse())

    def _models(self, stage: str) -> Sequence[Any]:
        """Return the models behind the variant that serves a stage; empty where it cannot be reached."""
        if stage not in self._turn.chosen:
            return ()
        chosen = self._turn.chosen[stage]
        if chosen not in self._learned:
            kind = tts.GetModelResponse if stage == TTS else video.GetModelResponse
            if not (models := self._turn.channel(stage).replicas.models(kind)):
                return ()
            self._learned[chosen] = models
        return self._learned[chosen]


def _in_all(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names that are in all lists, in the order of the first."""
    return tuple(name for name in lists[0] if all(name in each for each in lists)) if lists else ()
