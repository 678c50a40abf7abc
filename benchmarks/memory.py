"""Measures how turns are found by meaning: the memory's own vectors, brute force and LanceDB, in one run; and recall.

    python -m benchmarks.memory [--rows 100000] [--searches 200]

Rows are blends of two of the 750 sentence embeddings that come with the project, and a little noise: a dense set with
many near neighbours. Every engine gets the same rows, then a new process opens it and searches, so that its memory is
its own. Every search of ours asks the store what is there. LanceDB is a column when it is installed
(`pip install lancedb==0.40.0`), S3 when the server of the tests is. NumPy has one thread, LanceDB all.

Recall is that of a warm identity with the last turns, over gRPC from the service in a process of its own.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory_recall import TURNS, gets_ms, recalls_ms
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.store import Store
from services.memory.vectors.block import Row
from services.memory.vectors.embedder import SentenceEmbedder
from services.memory.vectors.index import Vectors
from services.memory.vectors.nearest import Wanted
from tests.s3_server import WEED, S3Server, open_store, wait_for

HITS = 8
CONVERSATIONS = 50
ADDS = 64
"""Rows added one by one: so many are merged at the first step."""

Floats = NDArray[np.float32]
Search = Callable[[Floats, bool], list[int]]
"""From a query, and whether only one conversation's later half is asked for, to row numbers."""


@dataclass(frozen=True)
class Measured:
    """Milliseconds, shares, seconds and MiB."""

    name: str
    all_ms: list[float]
    some_ms: list[float]
    all_recall: float
    some_recall: float
    first_s: float
    memory_mib: float


def rows_of(count: int, random: np.random.Generator) -> Floats:
    """Unit vectors like those of sentences: float32 (count, 384)."""
    kept = np.load(Path("services/mllm/exemplars.npz"))
    real = np.concatenate([kept["messages"], kept["replies"]]).astype(np.float32)
    one, other = random.integers(0, len(real), (2, count))
    share = random.uniform(0.5, 1, (count, 1)).astype(np.float32)
    blends = real[one] * share + real[other] * (1 - share)
    blends += random.normal(size=blends.shape).astype(np.float32) * 0.01
    vectors: Floats = blends / np.linalg.norm(blends, axis=1, keepdims=True)
    return vectors


def turn(number: int) -> Row:
    """All of a row but its vector."""
    conversation = f"conversation-{number % CONVERSATIONS}"
    key = f"{conversation}/{9_999_999_999 - number:010d}-turn-{number}"
    return Row(key, float(number), conversation, "sad", np.empty(0, np.float32))


def measure(name: str, folder: Path, begin: Callable[[], Search]) -> Measured:
    """Runs the queries in this process, which has loaded nothing yet."""
    queries: Floats = np.load(folder / "queries.npy")
    nearest = {some: np.load(folder / f"nearest_{some}.npy") for some in (False, True)}
    before, start_s = resident_mib(), time.perf_counter()
    search = begin()
    search(queries[0], False)
    first_s = time.perf_counter() - start_s
    times: dict[bool, list[float]] = {False: [], True: []}
    hits = {False: 0, True: 0}
    for index, query in enumerate(queries):
        for some in (False, True):
            start_s = time.perf_counter()
            found = search(query, some)
            times[some].append((time.perf_counter() - start_s) * 1000)
            hits[some] += len(set(found) & set(nearest[some][index].tolist()))
    shares = [hits[some] / nearest[some].size for some in (False, True)]
    return Measured(name, times[False], times[True], shares[0], shares[1], first_s, resident_mib() - before)


def resident_mib() -> float:
    """Memory of this process."""
    line = next(line for line in Path("/proc/self/status").read_text("utf-8").splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def brute_force(folder: Path) -> Measured:
    """Compares with every row."""

    def begin() -> Search:
        vectors: Floats = np.load(folder / "rows.npy")
        numbers = np.arange(len(vectors))
        chosen = numbers[(numbers % CONVERSATIONS == 3) & (numbers >= len(vectors) / 2)]

        def search(query: Floats, some: bool) -> list[int]:
            similar = (vectors[chosen] if some else vectors) @ query
            best = np.argpartition(similar, -HITS)[-HITS:]
            return [int(number) for number in (chosen[best] if some else best)]

        return search

    return measure("brute force, NumPy", folder, begin)


def ours(folder: Path, endpoint: str) -> Measured:
    """The memory's vectors."""

    def begin() -> Search:
        rows = len(np.load(folder / "rows.npy", mmap_mode="r"))
        vectors = Vectors(opened(folder, endpoint))

        def search(query: Floats, some: bool) -> list[int]:
            wanted = Wanted(HITS, conversation="conversation-3", since_s=rows / 2) if some else Wanted(HITS)
            return [int(found.turn.rpartition("-")[2]) for found in vectors.search("one/", query, wanted)]

        return search

    return measure("ours, S3" if endpoint else "ours, folder", folder, begin)


def opened(folder: Path, endpoint: str) -> Store:
    """The store of our rows."""
    return open_store(endpoint) if endpoint else FilesystemBackend(folder / "ours")


def write_ours(folder: Path, endpoint: str) -> str:
    """Adds the rows, the last ones one by one, and says what that and merging took."""
    vectors = Vectors(opened(folder, endpoint))
    given: Floats = np.load(folder / "rows.npy")
    rows = [Row(**{**vars(turn(number)), "vector": vector}) for number, vector in enumerate(given)]
    start_s = time.perf_counter()
    vectors.add("one/", rows[: -2 * ADDS])
    bulk_s = time.perf_counter() - start_s
    adds_ms = []
    for row in rows[-2 * ADDS : -ADDS]:
        start_s = time.perf_counter()
        vectors.add("one/", [row])
        adds_ms.append((time.perf_counter() - start_s) * 1000)
    start_s = time.perf_counter()
    vectors.compact("one/")
    merge_s = time.perf_counter() - start_s
    fresh_ms = []
    for row in rows[-ADDS:]:
        vectors.add("one/", [row])
        start_s = time.perf_counter()
        vectors.search("one/", row.vector, Wanted(HITS))
        fresh_ms.append((time.perf_counter() - start_s) * 1000)
    for first in range(0, 16_384, 1024):
        vectors.add("two/", rows[first : first + 1024])
    start_s = time.perf_counter()
    vectors.compact("two/")
    large_s = time.perf_counter() - start_s
    start_s = time.perf_counter()
    vectors.erase("two/", {rows[5].turn})
    erase_s = time.perf_counter() - start_s
    return (
        f"{bulk_s:.1f} s for all at once; one row {spread(adds_ms)} ms; merging {ADDS} rows {merge_s:.2f} s, "
        f"16 blocks of 1,024 {large_s:.2f} s; erasing one of 16,384 rows {erase_s:.2f} s; "
        f"a search after each of {ADDS} adds {spread(fresh_ms)} ms"
    )


def lance_table(folder: Path) -> Any:
    """The table of LanceDB. Not typed: it is no dependency."""
    return importlib.import_module("lancedb").connect(str(folder / "lance")).open_table("turns")


def write_lance(folder: Path) -> str:
    """Adds the rows and builds indexes, and says what that took."""
    arrow = importlib.import_module("pyarrow")
    given: Floats = np.load(folder / "rows.npy")

    def table(numbers: Sequence[int]) -> Any:
        vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(given[list(numbers)].ravel()), given.shape[1])
        talks = [turn(number).conversation for number in numbers]
        return arrow.table({"number": list(numbers), "conversation": talks, "vector": vectors})

    start_s = time.perf_counter()
    made = (
        importlib.import_module("lancedb")
        .connect(str(folder / "lance"))
        .create_table("turns", table(range(len(given) - ADDS)))
    )
    bulk_s = time.perf_counter() - start_s
    adds_ms = []
    for number in range(len(given) - ADDS, len(given)):
        start_s = time.perf_counter()
        made.add(table([number]))
        adds_ms.append((time.perf_counter() - start_s) * 1000)
    start_s = time.perf_counter()
    made.optimize()
    merge_s = time.perf_counter() - start_s
    made.create_scalar_index("conversation", index_type="BITMAP")
    made.create_scalar_index("number", index_type="BTREE")
    start_s = time.perf_counter()
    made.create_index(metric="dot", index_type="IVF_SQ", num_partitions=64, vector_column_name="vector")
    index_s = time.perf_counter() - start_s
    return (
        f"{bulk_s:.1f} s for all at once; one row {spread(adds_ms)} ms; merging {ADDS} rows {merge_s:.2f} s; "
        f"index IVF_SQ {index_s:.1f} s"
    )


def lance(folder: Path, exact: bool) -> Measured:
    """LanceDB, comparing with every row or through its index; filters have indexes of their own."""

    def begin() -> Search:
        table = lance_table(folder)
        half = table.count_rows() // 2

        def search(query: Floats, some: bool) -> list[int]:
            asked = table.search(query).distance_type("dot").limit(HITS).select(["number", "_distance"])
            asked = asked.bypass_vector_index() if exact else asked.nprobes(20).refine_factor(4)
            if some:
                asked = asked.where(f"conversation = 'conversation-3' AND number >= {half}", prefilter=True)
            return list(asked.to_arrow()["number"].to_pylist())

        return search

    return measure("LanceDB, exact" if exact else "LanceDB, IVF_SQ", folder, begin)


def prepare(folder: Path, rows: int, searches: int) -> None:
    """Writes the rows, the queries and what is truly nearest to them."""
    random = np.random.default_rng(0)
    vectors, queries = rows_of(rows, random), rows_of(searches, random)
    numbers = np.arange(rows)
    chosen = numbers[(numbers % CONVERSATIONS == 3) & (numbers >= rows / 2)]
    np.save(folder / "rows.npy", vectors)
    np.save(folder / "queries.npy", queries)
    np.save(folder / "nearest_False.npy", np.argsort(-(queries @ vectors.T), axis=1)[:, :HITS])
    np.save(folder / "nearest_True.npy", chosen[np.argsort(-(queries @ vectors[chosen].T), axis=1)[:, :HITS]])


def spread(times_ms: Sequence[float]) -> str:
    """Median and 95th percentile."""
    return f"{np.percentile(times_ms, 50):.1f} / {np.percentile(times_ms, 95):.1f}"


def apart(act: Callable[..., Any], *given: object) -> Any:
    """Runs in a new process of one thread."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(act, *given).result()


def load() -> str:
    """How busy the machine is."""
    return f"load {', '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} processors"


def embedding_ms() -> list[float]:
    """How long the reader takes for a query of twelve words, which comes before every search."""
    embedder = SentenceEmbedder(Path(".models"))
    times_ms = []
    for number in range(100):
        start_s = time.perf_counter()
        embedder.embed([f"Do you remember what I told you about my sister {number}?"])
        times_ms.append((time.perf_counter() - start_s) * 1000)
    return times_ms


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=200)
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    print(f"{options.rows:,} turns, {options.searches} searches, {HITS} hits; at the start {load()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = S3Server(folder / "s3") if WEED.exists() else None
        try:
            recall(folder, server)
            columns = run(folder, options.rows, options.searches, server)
        finally:
            if server:
                server.kill()
    print(f"\n{'p50 / p95 ms':22}{'all':>16}{'recall':>8}{'filtered':>16}{'recall':>8}{'first s':>9}{'MiB':>6}")
    for row in columns:
        print(
            f"{row.name:22}{spread(row.all_ms):>16}{row.all_recall:8.3f}{spread(row.some_ms):>16}"
            f"{row.some_recall:8.3f}{row.first_s:9.2f}{row.memory_mib:6.0f}"
        )
    print(f"\nembedding of a query, before each of these: {spread(apart(embedding_ms))} ms")
    print(f"at the end {load()}")
    return 0


def recall(folder: Path, server: S3Server | None) -> None:
    """Prints what recalling takes."""
    print(f"\nrecall of a warm identity with its last {TURNS} turns over gRPC, p50 / p95 ms")
    print(f"  folder: {spread(recalls_ms(folder / 'recalled', None))}")
    if server:
        server.start()
        wait_for(open_store(server.endpoint))
        print(f"  S3:     {spread(recalls_ms(folder, server))}; one object, without gRPC: {spread(gets_ms(server))}")
        server.kill()


def run(folder: Path, rows: int, searches: int, server: S3Server | None) -> list[Measured]:
    """Fills and searches every engine that is there."""
    apart(prepare, folder, rows, searches)
    print("\nadding")
    print(f"  ours, folder: {apart(write_ours, folder, '')}")
    columns = [apart(brute_force, folder), apart(ours, folder, "")]
    if server:
        server.start()
        wait_for(open_store(server.endpoint))
        print(f"  ours, S3:     {apart(write_ours, folder, server.endpoint)}")
        columns.append(apart(ours, folder, server.endpoint))
        server.kill()
    else:
        print("  ours, S3:     no server (the extra `dev` has one)")
    if importlib.util.find_spec("lancedb"):
        print(f"  LanceDB:      {apart(write_lance, folder)}")
        columns += [apart(lance, folder, True), apart(lance, folder, False)]
    else:
        print("  LanceDB:      not installed")
    return columns


if __name__ == "__main__":
    sys.exit(main())
