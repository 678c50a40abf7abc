"""`python -m orchestrator`: opens the door."""

import asyncio
import contextlib
from contextlib import AsyncExitStack

import grpc

import emotions
from e3rg.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from e3rg.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc, variants_pb2, variants_pb2_grpc
from orchestrator.identities import Examiner
from orchestrator.memories import SERVICES, Memories
from orchestrator.memory import Memory
from orchestrator.pipeline import Pipeline
from orchestrator.risks import Risks
from orchestrator.routing import PINNED, READY_S, TTS, VIDEO, VOTER
from orchestrator.servicer import OrchestratorServicer
from orchestrator.settings import OrchestratorSettings
from orchestrator.stages import Understanding
from orchestrator.variants.checking import VariantCheck
from orchestrator.variants.guarding import guarding
from orchestrator.variants.outcomes import of_turn
from orchestrator.variants.servicer import VariantServicer
from orchestrator.variants.trials import Trials
from orchestrator.webhook import Webhook
from services.common import clients, logs, server, start
from services.common.errors import ServiceError
from services.common.variants.channels import VariantChannels
from services.common.variants.live import LiveTable
from services.common.variants.settings import overlay_of, source_of

NAMES = (
    orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"].full_name,
    variants_pb2.DESCRIPTOR.services_by_name["VariantService"].full_name,
    gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"].full_name,
    *(service.full_name for service in SERVICES),
)

RISKS_CLOSE_S = 5.0
"""Time at a stop to keep and tell risks that are under way."""


async def main(started: asyncio.Event) -> None:
    """Connects to the stages, then serves until SIGTERM."""
    settings = OrchestratorSettings()
    logs.configure("orchestrator", settings.log_level)
    async with AsyncExitStack() as stack:
        channels = {}
        for name in ("understanding", "memory"):
            channel = clients.open_channel(getattr(settings, f"{name}_address"), name, settings.channel_tls)
            channels[name] = await stack.enter_async_context(channel)
        variants = VariantChannels(
            {TTS: settings.tts_address, VIDEO: settings.video_address},
            lambda address, name: clients.open_channel(address, name, settings.channel_tls),
        )
        stack.push_async_callback(variants.close)
        wheel = emotions.load()
        understanding = Understanding(channels["understanding"])
        check = VariantCheck(variants, understanding, wheel.digest, lambda: live.current)
        live = LiveTable(source_of(settings), check.check, overlay_of(settings), check.prepare)
        await stack.enter_async_context(live.running())
        guard, counts, all_counts = await stack.enter_async_context(guarding(settings, live))
        webhook = None
        if settings.risk_webhook_url:
            secret = settings.risk_webhook_secret.get_secret_value()
            webhook = Webhook(settings.risk_webhook_url, secret, settings.risk_webhook_words)
        memory = Memory(channels["memory"])
        risks = Risks(memory, webhook)
        stack.push_async_callback(risks.close, RISKS_CLOSE_S)
        pipeline = Pipeline(
            understanding=understanding,
            memory=memory,
            channels=variants,
            variants=live,
            wheel=wheel,
            turn_deadline_s=settings.turn_deadline_s,
            turn_deadline_max_s=settings.turn_deadline_max_s,
            history_turns=settings.history_turns,
            risks=risks,
            stage_idle_s=settings.stage_idle_s,
            observe=lambda turn, votes: guard.observe(of_turn(turn, votes)),
        )
        stack.push_async_callback(pipeline.shadows.close)
        servicer = OrchestratorServicer(pipeline, channels, settings.variant_admin)
        names = {*PINNED}
        administration = VariantServicer(
            live,
            lambda: names,
            lambda stage, name: check.behind(live.current, stage, name),
            settings.variant_admin,
            Trials(channels["memory"], all_counts),
        )
        memories = Memories(pipeline.memory, Examiner(pipeline.tts, pipeline.video))

        def register(grpc_server: grpc.aio.Server) -> None:
            orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server(servicer, grpc_server)
            variants_pb2_grpc.add_VariantServiceServicer_to_server(administration, grpc_server)
            gateway_pb2_grpc.add_GatewayServiceServicer_to_server(counts, grpc_server)
            memories.register(grpc_server)

        running = await stack.enter_async_context(server.running(NAMES, "orchestrator", settings))
        running.serve(register)

        async def needed() -> None:
            """Waits for what no turn goes without; what is lost later leaves the gateway ready."""
            await live.known()
            # Else the first turns would leave their conversations' variants, which are only being connected to.
            await variants.ready(live.current, READY_S)
            await channels["understanding"].channel_ready()
            await channels["memory"].channel_ready()
            with contextlib.suppress(ServiceError):  # Only changes of the table need the voters' names.
                names.update(f"{VOTER}{seat.voter}" for seat in (await pipeline.understanding.panel()).seats)

        await server.until_stopped(running, started, needed())


if __name__ == "__main__":
    start.run("orchestrator", main)
