"""`python -m services.tts`: serves the voice that `E3RG_TTS_BACKEND` names."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from google.protobuf.message import Message

import emotions
from e3rg.tts.v1 import tts_pb2, tts_pb2_grpc
from services.common import backends, logs, metrics, server, start
from services.common.inference import InferenceQueue
from services.common.load import Load
from services.tts.domain import Backend, Voices
from services.tts.servicer import TtsServicer
from services.tts.settings import TtsSettings

SERVICE = tts_pb2.DESCRIPTOR.services_by_name["TtsService"].full_name

TIDY_S = 5.0
"""Time between two evictions of voices that nobody speaks with."""


async def main(started: asyncio.Event) -> None:
    """Loads the model, then serves it until SIGTERM."""
    settings = TtsSettings()
    logs.configure("tts", settings.log_level)
    module = backends.load("services.tts.backends", settings.backend)

    def make(backend: Backend, closing: ExitStack) -> tuple[Callable[[Any], None], Callable[[], Load], Message]:
        queue = InferenceQueue("speech", settings.backend, settings.queue_waiting_max, variant=settings.variant)
        closing.callback(queue.close)
        voices = Voices(backend, settings.voices_max)
        closing.callback(asyncio.create_task(queue.repeat(voices.drop_unused, TIDY_S)).cancel)
        wheel = emotions.load()
        servicer = TtsServicer(settings.backend, backend, voices, queue, wheel)
        metrics.show_model(
            "tts",
            settings.backend,
            backend.model,
            backend.digest,
            wheel.digest,
            lambda: queue.load().backlog_s,
            settings.variant,
        )
        return lambda to: tts_pb2_grpc.add_TtsServiceServicer_to_server(servicer, to), queue.load, servicer.model

    await server.serve_model(SERVICE, "tts", settings, started, module.create, make)


if __name__ == "__main__":
    start.run("tts", main)
