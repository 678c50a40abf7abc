"""`python -m services.memory`: serves the store that `E3RG_MEMORY_BACKEND` names."""

import asyncio
from typing import cast

import emotions
from e3rg.memory.v1 import memory_pb2, memory_pb2_grpc
from services.common import backends, logs, server, start
from services.common.inference import InferenceQueue
from services.memory.memory import Memory
from services.memory.opening import Opening
from services.memory.ready import ready_identities
from services.memory.servicer import MemoryServicer
from services.memory.settings import MemorySettings
from services.memory.store import Store


async def main(started: asyncio.Event) -> None:
    """Serves until SIGTERM: refusals until the store is open, then what is in it."""
    settings = MemorySettings()
    logs.configure("memory", settings.log_level)
    store = cast("Store", backends.load("services.memory.backends", settings.backend).create())
    queue = InferenceQueue("memory", settings.backend, settings.queue_waiting_max, workers=settings.threads)
    memory = Memory(store, ready_identities())
    opening = Opening(store, memory, queue)
    servicer = MemoryServicer(settings.backend, memory, queue, emotions.load(), opening)
    try:
        async with server.running(
            memory_pb2.DESCRIPTOR.services_by_name["MemoryService"].full_name,
            "memory",
            lambda grpc_server: memory_pb2_grpc.add_MemoryServiceServicer_to_server(servicer, grpc_server),
            host=settings.host,
            port=settings.port,
            metrics_port=settings.metrics_port,
            grace_s=settings.shutdown_grace_s,
        ) as running:
            stopped = asyncio.create_task(server.stop_signal())
            opened = asyncio.create_task(opening.run())
            try:
                await asyncio.wait({stopped, opened}, return_when=asyncio.FIRST_COMPLETED)
                if opened.done():
                    await opened
                    await running.set_ready()
                    started.set()
                    await stopped
            finally:
                stopped.cancel()
                opened.cancel()
    finally:
        queue.close()
        store.close()


if __name__ == "__main__":
    start.run("memory", main)
