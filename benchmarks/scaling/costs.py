"""Measures what a turn costs the services that hold no large model: seconds of processor, and transactions.

    python -m benchmarks.scaling.costs [--turns 40]

All services run as on one machine (`local`), but for the memory, which keeps its facts in PostgreSQL 18 and its media
in SeaweedFS. Turns are spoken and filmed by the embedded models, one after the other. Seconds are those of a process
beyond what it takes when nobody calls. The last line is what a caller takes for each idle replica that it watches.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import asyncpg
import psutil

from client import Client
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from local.deployment import Deployment
from services.common import clients, server
from services.common.settings import ServiceSettings
from services.memory.migrate import migrate
from tests.support.postgres import Postgres
from tests.support.seaweedfs import SeaweedFs
from tests.support.stacks import Stack

IDLE_S = 20.0
TEXTS = ("I failed my driving test again.", "They gave the job to someone else.", "We won the final!")


def take(client: Client, turns: int) -> Iterator[float]:
    """Take turns of a person who is remembered; yield the bytes of each reply."""
    for number in range(turns):
        text = TEXTS[number % len(TEXTS)]
        header = pb.RespondHeader(
            text=text, identity="anna", person=f"user-{number % 8}", conversation=f"talk-{number % 8}"
        )
        yield sum(timed.event.ByteSize() for timed in client.respond(header))


async def transactions(url: str) -> int:
    """Return the transactions of a database so far."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        return int(await connection.fetchval(query))
    finally:
        await connection.close()


def measure(deployment: Deployment, url: str, turns: int) -> None:
    """Print the costs."""
    processes = {name: psutil.Process(each.process.pid) for name, each in deployment.components.items() if each.process}

    def used() -> dict[str, float]:
        return {name: sum(process.cpu_times()[:2]) for name, process in processes.items()}

    with Client(deployment.address) as client:
        list(take(client, 8))
        before, asked = used(), asyncio.run(transactions(url))
        time.sleep(IDLE_S)
        idle = {name: (now - before[name]) / IDLE_S for name, now in used().items()}
        idle_asked = (asyncio.run(transactions(url)) - asked) / IDLE_S
        before, asked, began_s = used(), asyncio.run(transactions(url)), time.monotonic()
        size = sum(take(client, turns))
        took_s = time.monotonic() - began_s
        time.sleep(2.0)  # What is kept after the reply.
        after = used()
        asked = asyncio.run(transactions(url)) - asked
    print(f"{turns} turns, one after the other, {took_s / turns:.2f} s each, {size / turns / 1024:.0f} KiB of reply")
    print(f"{'service':24}{'ms a turn':>10}{'ms a second, idle':>20}")
    for name in processes:
        spent_s = after[name] - before[name] - idle[name] * (took_s + 2.0)
        print(f"{name:24}{1000 * spent_s / turns:10.0f}{1000 * idle[name]:20.1f}")
    a_turn = (asked - idle_asked * (took_s + 2.0)) / turns
    print(f"transactions a turn: {a_turn:.1f}; idle, a second: {idle_asked:.1f}")


def serve(count: int, told: Connection) -> None:
    """Serve so many idle replicas until the other end of `told` is closed; tell their ports there."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            ports = []
            for _ in range(count):
                settings = ServiceSettings(host="127.0.0.1", port=0, metrics_port=0, shutdown_grace_s=1)
                running = await stack.enter_async_context(server.running("idle", "idle", settings))
                await running.set_ready()
                ports.append(running.port)
            told.send(ports)
            await asyncio.to_thread(told.poll, None)

    asyncio.run(main())


async def watching_s(ports: Sequence[int]) -> float:
    """Return the seconds of processor that this process takes in a second to watch the replicas at these ports."""
    async with clients.open_channel(f"ipv4:{','.join(f'127.0.0.1:{port}' for port in ports)}") as channel:
        await channel.replicas.wait_ready(len(ports))
        began_s = time.process_time()
        await asyncio.sleep(IDLE_S)
        return (time.process_time() - began_s) / IDLE_S


async def watching_more_s(few: Sequence[int], many: Sequence[int]) -> float:
    """Return what each replica more adds to that."""
    less_s, more_s = await watching_s(few), await watching_s(many)
    return (more_s - less_s) / (len(many) - len(few))


def measure_watching(few: int = 10, many: int = 110) -> None:
    """Print what each replica more costs a caller that watches it."""
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(many, theirs))
    process.start()
    theirs.close()
    ports = mine.recv()
    cost_s = asyncio.run(watching_more_s(ports[:few], ports))
    mine.close()
    process.join()
    print(f"watching: {1000 * cost_s:.2f} ms a second for each replica")


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-costs-") as folder, ExitStack() as closing:
        place = Path(folder)
        for each in ("s3", "postgres"):
            (place / each).mkdir()
        store, postgres = SeaweedFs(place / "s3"), Postgres(place / "postgres")
        store.start()
        closing.callback(store.stop)
        postgres.start()
        closing.callback(postgres.stop)
        stack = Stack("postgresql, s3", place / "unused", asyncio.run(postgres.database("turns")), store.bucket())
        asyncio.run(migrate(stack.settings()))
        assert stack.urls
        deployment = Deployment(place / "run", Path(".models"), report=print, environment={"memory": stack.variables})
        closing.enter_context(deployment)
        measure(deployment, stack.urls.admin, options.turns)
    measure_watching()


if __name__ == "__main__":
    main()
