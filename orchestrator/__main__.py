"""`python -m orchestrator`: opens the door."""

import asyncio

import grpc

import emotions
from e3rg.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from orchestrator.identities import Examiner
from orchestrator.memories import SERVICES, Memories
from orchestrator.memory import Memory
from orchestrator.pipeline import Pipeline
from orchestrator.servicer import Addresses, OrchestratorServicer
from orchestrator.settings import OrchestratorSettings
from orchestrator.stages import Tts, Understanding, Video
from services.common import clients, logs, server, start


async def main(started: asyncio.Event) -> None:
    """Connects to the stages, then serves until SIGTERM."""
    settings = OrchestratorSettings()
    logs.configure("orchestrator", settings.log_level)
    addresses = Addresses(
        settings.understanding_address, settings.memory_address, settings.tts_address, settings.video_address
    )
    channels = [clients.open_channel(address) for address in vars(addresses).values()]
    pipeline = Pipeline(
        understanding=Understanding(channels[0]),
        memory=Memory(channels[1]),
        tts=Tts(channels[2]),
        video=Video(channels[3]),
        wheel=emotions.load(),
        turn_deadline_s=settings.turn_deadline_s,
        history_turns=settings.history_turns,
        stage_idle_s=settings.stage_idle_s,
    )
    servicer = OrchestratorServicer(pipeline, addresses)
    memories = Memories(pipeline.memory, Examiner(pipeline.tts, pipeline.video))

    def register(grpc_server: grpc.aio.Server) -> None:
        orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server(servicer, grpc_server)
        memories.register(grpc_server)

    try:
        async with server.running(
            (
                orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"].full_name,
                *(service.full_name for service in SERVICES),
            ),
            "orchestrator",
            register,
            host=settings.host,
            port=settings.port,
            metrics_port=settings.metrics_port,
            grace_s=settings.shutdown_grace_s,
        ) as running:
            await running.set_ready()
            started.set()
            await server.stop_signal()
    finally:
        for channel in channels:
            await channel.close()


if __name__ == "__main__":
    start.run("orchestrator", main)
