"""`python -m services.mllm`: serves the model that `E3RG_MLLM_BACKEND` names."""

import asyncio
from typing import cast

import emotions
from e3rg.mllm.v1 import mllm_pb2, mllm_pb2_grpc
from services.common import backends, logs, server, start
from services.common.inference import InferenceQueue
from services.mllm.domain import Backend
from services.mllm.servicer import MllmServicer
from services.mllm.settings import MllmSettings


async def main(started: asyncio.Event) -> None:
    """Loads the model, then serves it until SIGTERM."""
    settings = MllmSettings()
    logs.configure("mllm", settings.log_level)
    wheel = emotions.load()
    backend = cast("Backend", backends.load("services.mllm.backends", settings.backend).create())
    queue = InferenceQueue("mllm", backend.card.model, settings.queue_waiting_max)
    servicer = MllmServicer(settings.backend, backend, queue, wheel)
    try:
        async with server.running(
            mllm_pb2.DESCRIPTOR.services_by_name["MllmService"].full_name,
            "mllm",
            lambda grpc_server: mllm_pb2_grpc.add_MllmServiceServicer_to_server(servicer, grpc_server),
            host=settings.host,
            port=settings.port,
            metrics_port=settings.metrics_port,
            grace_s=settings.shutdown_grace_s,
        ) as running:
            await running.set_ready()
            started.set()
            await server.stop_signal()
    finally:
        queue.close()
        backend.close()


if __name__ == "__main__":
    start.run("mllm", main)
