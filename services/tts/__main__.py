"""`python -m services.tts`: serves the voice that `E3RG_TTS_BACKEND` names."""

import asyncio
from typing import cast

import emotions
from e3rg.tts.v1 import tts_pb2, tts_pb2_grpc
from services.common import backends, logs, server, start
from services.common.inference import InferenceQueue
from services.tts.domain import Backend, Voices
from services.tts.servicer import TtsServicer
from services.tts.settings import TtsSettings

TIDY_S = 5.0
"""How often voices that nobody speaks with are dropped."""


async def main(started: asyncio.Event) -> None:
    """Loads the model, then serves it until SIGTERM."""
    settings = TtsSettings()
    logs.configure("tts", settings.log_level)
    wheel = emotions.load()
    backend = cast("Backend", backends.load("services.tts.backends", settings.backend).create())
    queue = InferenceQueue("tts", backend.model, settings.queue_waiting_max)
    voices = Voices(backend, settings.voices_max)
    servicer = TtsServicer(settings.backend, backend, voices, queue, wheel)
    tidying = asyncio.create_task(queue.repeat(voices.drop_unused, TIDY_S))
    try:
        async with server.running(
            tts_pb2.DESCRIPTOR.services_by_name["TtsService"].full_name,
            "tts",
            lambda grpc_server: tts_pb2_grpc.add_TtsServiceServicer_to_server(servicer, grpc_server),
            host=settings.host,
            port=settings.port,
            metrics_port=settings.metrics_port,
            grace_s=settings.shutdown_grace_s,
        ) as running:
            await running.set_ready()
            started.set()
            await server.stop_signal()
    finally:
        tidying.cancel()
        queue.close()
        backend.close()


if __name__ == "__main__":
    start.run("tts", main)
