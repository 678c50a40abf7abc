"""`python -m services.mllm`: serves the model that `E3RG_MLLM_BACKEND` names."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from google.protobuf.message import Message

import emotions
from e3rg.mllm.v1 import mllm_pb2, mllm_pb2_grpc
from services.common import backends, logs, metrics, server, start
from services.common.inference import InferenceQueue
from services.common.load import Load
from services.mllm.domain import Backend
from services.mllm.servicer import MllmServicer
from services.mllm.settings import MllmSettings

SERVICE = mllm_pb2.DESCRIPTOR.services_by_name["MllmService"].full_name


async def main(started: asyncio.Event) -> None:
    """Loads the model, then serves it until SIGTERM."""
    settings = MllmSettings()
    logs.configure("mllm", settings.log_level)
    module = backends.load("services.mllm.backends", settings.backend)

    def make(backend: Backend, closing: ExitStack) -> tuple[Callable[[Any], None], Callable[[], Load], Message]:
        queue = InferenceQueue("vote", settings.backend, settings.queue_waiting_max, variant=settings.variant)
        closing.callback(queue.close)
        card, wheel = backend.card, emotions.load()
        servicer = MllmServicer(settings.backend, backend, queue, wheel)
        metrics.show_model(
            "mllm",
            settings.backend,
            card.model,
            card.digest,
            wheel.digest,
            lambda: queue.load().backlog_s,
            settings.variant,
        )
        return lambda to: mllm_pb2_grpc.add_MllmServiceServicer_to_server(servicer, to), queue.load, servicer.model

    await server.serve_model(SERVICE, "mllm", settings, started, module.create, make)


if __name__ == "__main__":
    start.run("mllm", main)
