"""`python -m services.memory`: serves the store that `E3RG_MEMORY_BACKEND` names."""

import asyncio
from typing import cast

import emotions
from e3rg.memory.v1 import memory_pb2, memory_pb2_grpc
from services.common import backends, logs, server, start
from services.common.inference import InferenceQueue
from services.memory.domain import Backend
from services.memory.memory import Memory
from services.memory.ready import ready_identities
from services.memory.servicer import MemoryServicer
from services.memory.settings import MemorySettings


async def main(started: asyncio.Event) -> None:
    """Opens the store, makes it whole, then serves it until SIGTERM."""
    settings = MemorySettings()
    logs.configure("memory", settings.log_level)
    store = cast("Backend", backends.load("services.memory.backends", settings.backend).create())
    queue = InferenceQueue("memory", settings.backend, settings.queue_waiting_max, workers=settings.threads)
    memory = Memory(store, ready_identities())
    servicer = MemoryServicer(settings.backend, memory, queue, emotions.load())
    try:
        await queue.run(memory.prepare)
        async with server.running(
            memory_pb2.DESCRIPTOR.services_by_name["MemoryService"].full_name,
            "memory",
            lambda grpc_server: memory_pb2_grpc.add_MemoryServiceServicer_to_server(servicer, grpc_server),
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
        store.close()


if __name__ == "__main__":
    start.run("memory", main)
