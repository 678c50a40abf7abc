"""Measures the memory on both stacks, recall beside the version before, in one run.

    python -m benchmarks.memory [--old CHECKOUT] [--turns 100000] [--users 10000]

Recall is that of a warm identity with its last ten turns, over gRPC from the service in a process of its own; services
take turns, so that what else the machine does meets all alike. `--old` names a checkout of a version that kept whole
objects (`git worktree add CHECKOUT 8f722ff`); its stores are a folder and the same S3 server. Search is over gRPC too,
its query embedded before; one user has `--turns` turns, then on PostgreSQL `--users` users have a hundred each.
Rows are written below the service. PostgreSQL 18, and MinIO (E3RG_TEST_MINIO) or else SeaweedFS, run beside.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import numpy as np

from benchmarks.memory_rows import Rows, named_users, vectors_of, write_postgres, write_sqlite
from e3rg.memory.v1 import memory_pb2 as pb
from services.memory.embedding import SentenceEmbedder
from services.memory.memory import Memory
from services.memory.migrate import migrate
from services.memory.schema import vector_text
from services.memory.upkeep import Upkeep
from tests.support import minio
from tests.support.memory import TENANT, Stubs, green, header, parts, process_of
from tests.support.minio import MinIo
from tests.support.object_store import ObjectStore
from tests.support.postgres import Postgres
from tests.support.seaweedfs import SeaweedFs
from tests.support.stacks import Stack, s3_variables

ROUNDS, CALLS, CONCURRENT, SEARCHES = 5, 100, 200, 200
RECALL = pb.RecallRequest(tenant=TENANT, identity="ada", person="bob", conversation="talk", turns_max=10)
WORDS = [
    "what",
    "did",
    "i",
    "tell",
    "you",
    "about",
    "the",
    "talk",
    "with",
    "my",
    "sister",
    "on",
    "that",
    "long",
    "evening",
    "by",
    "the",
    "sea",
]


def spread(times_ms: Sequence[float]) -> str:
    """Return p50 and p95."""
    return f"{np.percentile(times_ms, 50):7.1f} {np.percentile(times_ms, 95):7.1f}"


def load() -> str:
    """Return how busy the machine is."""
    return f"load {os.getloadavg()[0]:.1f}"


@asynccontextmanager
async def talked(variables: dict[str, str], root: Path) -> AsyncIterator[Stubs]:
    """Serve a memory in which somebody has talked with an identity."""
    async with process_of(variables, root) as (stubs, _):
        await green(stubs)
        await stubs.add(parts(header()))
        for number in range(12):
            await stubs.say(number, person="bob")
        for _ in range(50):
            await stubs.memory.Recall(RECALL)
        yield stubs


async def timed(calls: int, call: grpc.aio.UnaryUnaryMultiCallable[pb.RecallRequest, pb.RecallResponse]) -> list[float]:
    """Return the milliseconds of recalls, one after the other."""
    times_ms = []
    for _ in range(calls):
        start_s = time.perf_counter()
        found = await call(RECALL)
        times_ms.append((time.perf_counter() - start_s) * 1000)
        assert len(found.turns) == 10
    return times_ms


async def recalls(stacks: dict[str, tuple[dict[str, str], Path]]) -> None:
    """Print what a recall takes, and 200 at once."""
    async with AsyncExitStack() as served:
        stubs = {name: await served.enter_async_context(talked(*stack)) for name, stack in stacks.items()}
        times_ms: dict[str, list[float]] = {name: [] for name in stubs}
        for _ in range(ROUNDS):
            for name, each in stubs.items():
                times_ms[name] += await timed(CALLS, each.memory.Recall)
        print(
            f"\nrecall of a warm identity with its last 10 turns, over gRPC ({load()})\n{'':24}    p50     p95 ms"
            "  ratio"
        )
        for name, measured in times_ms.items():
            before = times_ms.get(name.replace("new", "old"), measured)
            ratio = np.percentile(measured, 50) / np.percentile(before, 50)
            print(f"  {name:22}{spread(measured)}    {ratio:.2f}")
        for name, each in stubs.items():
            if name.startswith("new"):
                await at_once(name, each)


async def at_once(name: str, stubs: Stubs) -> None:
    """Print what 200 recalls at once take, five times."""
    errors, times_ms = 0, []

    async def one() -> None:
        start_s = time.perf_counter()
        await stubs.memory.Recall(RECALL)
        times_ms.append((time.perf_counter() - start_s) * 1000)

    for _ in range(ROUNDS):
        ended = await asyncio.gather(*(one() for _ in range(CONCURRENT)), return_exceptions=True)
        errors += sum(isinstance(each, BaseException) for each in ended)
    print(f"  {CONCURRENT} recalls at once, {name}: {errors} errors, p50 / p95 ms {spread(times_ms)}")


async def searched(
    stack: Stack, embedder: SentenceEmbedder, whom: Sequence[str]
) -> tuple[float, list[float], list[float]]:
    """Return the first search in seconds, the others and the embedding of their queries in milliseconds."""
    embedding_ms, times_ms = [], []
    async with process_of(stack.variables) as (stubs, _):
        await green(stubs)
        random = np.random.default_rng(1)
        for number in range(SEARCHES + 1):
            text = " ".join(random.choice(WORDS, 12))
            start_s = time.perf_counter()
            embedder.embed([text])
            embedding_ms.append((time.perf_counter() - start_s) * 1000)
            who: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "text": text}
            await stubs.memory.Search(pb.SearchRequest(**who, person="nobody"))  # The service caches the embedding.
            start_s = time.perf_counter()
            person = whom[number % len(whom)]
            found = await stubs.memory.Search(pb.SearchRequest(**who, person=person, hits_max=8, similarity_min=-1))
            times_ms.append((time.perf_counter() - start_s) * 1000)
            assert len(found.hits) == 8
    return times_ms[0] / 1000, times_ms[1:], embedding_ms[1:]


async def prepared(stack: Stack, embedder: SentenceEmbedder) -> str:
    """Add an identity and return its id."""
    settings = stack.settings()
    if stack.urls:
        await migrate(settings)
    memory = Memory(settings, embedder)
    try:
        await Upkeep(settings, memory).open_once()
    finally:
        await memory.close()
    async with process_of(stack.variables) as (stubs, _):
        await green(stubs)
        return (await stubs.add(parts(header()))).generation


async def indexed(stack: Stack, embedder: SentenceEmbedder) -> None:
    """Put the embeddings of large users into the approximate index."""
    memory = Memory(stack.settings(database_timeout_s=600), embedder)
    try:
        await Upkeep(stack.settings(), memory).index()
    finally:
        await memory.close()


async def explained(url: str, user_id: str, digest: str, is_indexed: bool) -> None:
    """Print the plan of a search."""
    query = vector_text(vectors_of(1, np.random.default_rng(2))[0])
    index = "AND is_indexed" if is_indexed else ""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET hnsw.iterative_scan = 'relaxed_order'; SET hnsw.ef_search = 100")
        plan = await connection.fetch(
            "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT turn_pk FROM turn_embeddings"
            f" WHERE tenant = '{TENANT}' AND user_id = '{user_id}' AND model_digest = '{digest}' {index}"
            f" ORDER BY vector <=> '{query}'::halfvec LIMIT 8"
        )
    finally:
        await connection.close()
    print("\n".join(f"    {row[0].replace(query, '…')[:150]}" for row in plan))


async def searches(embedded: Stack, clustered: Stack, turns: int, users: int) -> None:
    """Print what searches take, on both stacks among many turns of one user, on PostgreSQL among many users."""
    embedder = SentenceEmbedder(Path(".models"))
    assert clustered.urls
    print(f"\nsearch over gRPC, 8 hits ({load()})\n{'':46}first s    p50     p95 ms; embedding a query  p50     p95 ms")
    for stack in (embedded, clustered):
        identity_id = await prepared(stack, embedder)
        rows = Rows(TENANT, identity_id, embedder.digest, named_users("large", 1), turns, 1)
        start_s = time.perf_counter()
        if stack.urls:
            await write_postgres(stack.urls.admin, rows)
            await indexed(stack, embedder)
        else:
            write_sqlite(stack.folder / "memory.db", rows)
        written_s = time.perf_counter() - start_s
        first_s, times_ms, embedding_ms = await searched(stack, embedder, list(rows.users))
        what = f"{stack.name}: {turns} turns of one user"
        print(
            f"  {what:44} {first_s:6.2f} {spread(times_ms)} {spread(embedding_ms):>30}  (written in {written_s:.0f} s)"
        )
    await explained(clustered.urls.admin, next(iter(rows.users.values())), embedder.digest, is_indexed=True)
    many = Rows(TENANT, identity_id, embedder.digest, named_users("user", users), 100, turns + 1)
    start_s = time.perf_counter()
    await write_postgres(clustered.urls.admin, many)
    written_s = time.perf_counter() - start_s
    first_s, times_ms, embedding_ms = await searched(
        clustered, embedder, list(many.users)[:: max(1, users // SEARCHES)]
    )
    what = f"{clustered.name}: {users} users of 100 turns"
    print(f"  {what:44} {first_s:6.2f} {spread(times_ms)} {spread(embedding_ms):>30}  (written in {written_s:.0f} s)")
    await explained(clustered.urls.admin, list(many.users.values())[users // 2], embedder.digest, is_indexed=False)


async def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, metavar="CHECKOUT", help="a checkout of the version before the database")
    parser.add_argument("--turns", type=int, default=100_000, help="turns of one user")
    parser.add_argument(
        "--users", type=int, default=10_000, help="users of a hundred turns each; 0 leaves out searches"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-memory-") as folder:
        place, program = Path(folder), minio.program()
        for each in ("s3", "postgres"):
            (place / each).mkdir()
        store: ObjectStore = MinIo(place / "s3", program) if program else SeaweedFs(place / "s3")
        postgres = Postgres(place / "postgres")
        store.start()
        postgres.start()
        try:
            embedded = Stack("sqlite, folder", place / "embedded")
            clustered = Stack("postgresql, s3", place / "unused", await postgres.database("recall"), store.bucket())
            await migrate(clustered.settings())
            here = Path.cwd()
            stacks = {
                "new sqlite, folder": (embedded.variables, here),
                "new postgresql, s3": (clustered.variables, here),
            }
            if given.old:
                s3 = {"E3RG_MEMORY_BACKEND": "s3", **s3_variables(store.bucket())}
                old = given.old.resolve()
                stacks["old sqlite, folder"] = ({"E3RG_MEMORY_FOLDER": str(place / "old")}, old)
                stacks["old postgresql, s3"] = (s3, old)
            print(f"{os.cpu_count()} cores, {load()}; S3 is {type(store).__name__}; old: a folder, and that S3")
            await recalls(stacks)
            if given.users:
                large = Stack("postgresql, s3", place / "unused", await postgres.database("search"), store.bucket())
                await searches(Stack("sqlite, folder", place / "large"), large, given.turns, given.users)
        finally:
            postgres.stop()
            store.stop()


if __name__ == "__main__":
    asyncio.run(main())
