"""`python -m services.memory`: serves the store that `E3RG_MEMORY_BACKEND` names."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import cast

import emotions
from services.common import backends, logs, server, start
from services.common.inference import InferenceQueue
from services.memory.forgetting.upkeep import Upkeep
from services.memory.memory import Memory
from services.memory.opening import Opening
from services.memory.registry.ready import ready_identities
from services.memory.servicer import SERVICES, register
from services.memory.settings import MemorySettings
from services.memory.store import Store
from services.memory.vectors.embedder import SentenceEmbedder
from services.memory.wire.desk import Desk, Queues


async def main(started: asyncio.Event) -> None:
    """Serves until SIGTERM: refusals until the store is open, then what is in it."""
    settings = MemorySettings()
    logs.configure("memory", settings.log_level)
    store = cast("Store", backends.load("services.memory.backends", settings.backend).create())
    memory = Memory(
        store,
        SentenceEmbedder(settings.models_dir),
        tuple(ready_identities()),
        settings.cache_bytes,
        settings.cache_keep_s,
    )
    queue_of = partial(InferenceQueue, "memory", waiting_max=settings.queue_waiting_max, workers=settings.threads)
    queues = Queues(
        queue_of(settings.backend), queue_of(memory.embedding.model), queue_of("archives"), queue_of("imports")
    )
    sweeper = InferenceQueue("memory", "sweeper", 0)
    opening = Opening(store, memory, queues.store)
    desk = Desk(memory, queues, opening)
    try:
        async with server.running(
            SERVICES,
            "memory",
            lambda grpc_server: register(grpc_server, settings.backend, desk, emotions.load()),
            host=settings.host,
            port=settings.port,
            metrics_port=settings.metrics_port,
            grace_s=settings.shutdown_grace_s,
        ) as running:
            stopped = asyncio.create_task(server.stop_signal())
            working = asyncio.create_task(_work(opening, running, started, Upkeep(memory, sweeper)))
            try:
                await asyncio.wait({stopped, working}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    await working  # It only ends by what is wrong.
            finally:
                stopped.cancel()
                working.cancel()
                with suppress(asyncio.CancelledError):
                    await working
    finally:
        sweeper.close()
        queues.close()
        memory.close()


async def _work(opening: Opening, running: server.Running, started: asyncio.Event, upkeep: Upkeep) -> None:
    await opening.run()
    await running.set_ready()
    started.set()
    await upkeep.run()


if __name__ == "__main__":
    start.run("memory", main)
