"""The gRPC door."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from orchestrator.pipeline import Pipeline
from orchestrator.routing import TTS, VIDEO, WRITER
from orchestrator.stages import Tts, Video
from orchestrator.variants.override import named
from services.common.channels import BalancedChannel
from services.common.errors import InvalidRequest, ServiceError
from services.common.variants.table import State

TEXT_CHARS_MAX = 4000
FILE_BYTES_MAX = 32 << 20
TENANT_DEFAULT = "default"
"""Tenant of a turn that names none."""


class OrchestratorServicer(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """Serves turns.

    Args:
        pipeline: Runs them.
        channels: To "understanding" and "memory".
        admin: Whether callers may name the variants of their turn.
    """

    def __init__(self, pipeline: Pipeline, channels: Mapping[str, BalancedChannel], admin: bool = False) -> None:
        self._admin = admin
        self._pipeline = pipeline
        self._channels = channels

    async def Respond(
        self, request_iterator: AsyncIterator[pb.RespondRequest], context: Any
    ) -> AsyncIterator[pb.RespondResponse]:
        parts = aiter(request_iterator)
        first = await anext(parts, pb.RespondRequest())
        if first.WhichOneof("part") != "header":
            raise InvalidRequest("header", "missing; send it first")
        _check(first.header)
        first.header.tenant = first.header.tenant or TENANT_DEFAULT
        overrides = named(context.invocation_metadata() or (), self._admin)
        async with aclosing(self._pipeline.respond(first.header, parts, overrides)) as events:
            async for event in events:
                yield event

    async def GetStatus(self, request: pb.GetStatusRequest, context: Any) -> pb.GetStatusResponse:
        mine = common.ModelCard(ontology_hash=self._pipeline.wheel.digest)
        groups = await asyncio.gather(
            self._panel(),
            self._status("memory", self._channels["memory"], self._pipeline.memory.store()),
            self._variants(TTS, Tts),
            self._variants(VIDEO, Video),
        )
        problem = self._pipeline.variants.problem
        problem = problem and f"the table of variants is refused: {problem}"
        services = [pb.ServiceStatus(name="orchestrator", ready=True, card=mine, problem=problem)]
        return pb.GetStatusResponse(services=services + [status for group in groups for status in group])

    async def _variants(self, stage: str, service: Callable[[BalancedChannel], Tts | Video]) -> list[pb.ServiceStatus]:
        """Return the state of each variant of a stage that may be called."""
        table = self._pipeline.variants.current
        known = {
            name: self._pipeline.channels.of(table, stage, name)
            for name, variant in table.stage(stage).variants.items()
            if variant.state is not State.OFF
        }
        groups = await asyncio.gather(
            *(self._status(stage, channel, service(channel).model()) for channel in known.values())
        )
        for name, (status,) in zip(known, groups, strict=True):
            status.variant = name
        return [status for group in groups for status in group]

    async def _status(self, name: str, channel: BalancedChannel, asking: Awaitable[Any]) -> list[pb.ServiceStatus]:
        replicas = channel.replicas
        told = pb.ServiceStatus(
            name=name, address=replicas.target, replicas=replicas.known, replicas_ready=len(replicas.ready)
        )
        try:
            answer = await asking
            self._pipeline.check_wheel(name, answer.card.ontology_hash)
            # A memory without its store stays ready: what it knew a moment ago still serves.
            problem = answer.problem if isinstance(answer, memory.GetStoreResponse) else ""
            told.MergeFrom(pb.ServiceStatus(ready=True, card=answer.card, problem=problem))
        except ServiceError as error:
            told.problem = str(error)
        return [told]

    async def _panel(self) -> list[pb.ServiceStatus]:
        replicas = self._channels["understanding"].replicas
        told = pb.ServiceStatus(
            name="understanding",
            address=replicas.target,
            replicas=replicas.known,
            replicas_ready=len(replicas.ready),
        )
        try:
            panel = await self._pipeline.understanding.panel()
            self._pipeline.check_wheel("understanding", panel.ontology_hash)
        except ServiceError as error:
            told.problem = str(error)
            return [told]
        told.MergeFrom(pb.ServiceStatus(ready=True, card=common.ModelCard(ontology_hash=panel.ontology_hash)))
        statuses = [told]
        seats = [(f"mllm {seat.voter}", seat) for seat in panel.seats] + [(WRITER, seat) for seat in panel.writers]
        for name, seat in seats:
            problem, card = seat.problem, seat.model.card
            if not problem and card.ontology_hash != panel.ontology_hash:
                problem = f"it uses emotion wheel {card.ontology_hash[:12]}; deploy the panel's version"
            statuses.append(
                pb.ServiceStatus(name=name, ready=not problem, problem=problem, card=card, variant=seat.variant)
            )
        return statuses


def _check(header: pb.RespondHeader) -> None:
    if not header.identity:
        raise InvalidRequest("header.identity", "empty; name an identity")
    if len(header.text) > TEXT_CHARS_MAX:
        raise InvalidRequest("header.text", f"{len(header.text)} characters; send at most {TEXT_CHARS_MAX}")
    if not (header.text.strip() or header.audio_size_bytes or header.video_size_bytes):
        raise InvalidRequest("header.text", "the message is empty; send text, audio or video")
    if header.keep_clips and not header.conversation:
        problem = "set for a turn that stands alone and is not kept; name a conversation, or leave it out"
        raise InvalidRequest("header.keep_clips", problem)
    for field, size in (("audio", header.audio_size_bytes), ("video", header.video_size_bytes)):
        if size > FILE_BYTES_MAX:
            raise InvalidRequest(f"header.{field}_size_bytes", f"{size}; send at most {FILE_BYTES_MAX}")
    if header.output not in pb.Output.values():
        raise InvalidRequest("header.output", f"{header.output}; use one of: {', '.join(pb.Output.keys())}")
