"""What is told of a store that did not answer: by the memory, by the door and by `e3rg status`."""

import asyncio
from pathlib import Path

import pytest

from client import command
from e3rg.memory.v1 import memory_pb2
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from services.common import deadline
from services.common.errors import DeadlineExceeded, NotReady
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.backends.s3 import S3Backend
from services.memory.cache import FAIR_S, Cached
from services.memory.metrics import STORE_UP
from tests.deployment import Cast, Deployment
from tests.fake_store import FakeStore
from tests.fakes import fail, go_on
from tests.memory_service import Stubs, memory_over, parts, serving
from tests.memory_service import header as new
from tests.s3_proxy import S3Proxy
from tests.s3_server import open_store
from tests.turns import Start


async def problem(stubs: Stubs) -> str:
    """What the memory tells of its store."""
    told = (await stubs.memory.GetStore(memory_pb2.GetStoreRequest())).problem
    assert STORE_UP._value.get() == (0 if told else 1)
    return told


async def test_the_memory_tells_why_its_store_did_not_answer_when_it_was_asked_last() -> None:
    store = FakeStore()
    async with serving(memory := memory_over(store)) as stubs:
        await stubs.add(parts(new()))
        assert await problem(stubs) == ""
        for error in (NotReady("the store is away; retry"), DeadlineExceeded("the store does not answer in time")):
            store.before = fail(error)
            assert (await stubs.recall()).stale_s > 0
            assert await problem(stubs) == str(error)
            memory.tidy()
            assert await problem(stubs) == str(error), "nobody has asked it since"
        store.before = go_on
        assert (await stubs.recall()).stale_s == 0
        assert await problem(stubs) == ""


def test_a_call_that_need_not_ask_the_store_or_leaves_it_no_time_says_nothing_of_it() -> None:
    store = FakeStore()
    cached = Cached(store, 1000)
    store.before = fail(NotReady("the store is away; retry"))
    with pytest.raises(NotReady):
        cached.list("a/")
    store.before = go_on
    cached.sweep()
    cached.delete([])
    store.before = fail(DeadlineExceeded("the time that the call allows is over"))
    with deadline.within(FAIR_S / 2), pytest.raises(DeadlineExceeded):
        cached.list("a/")
    assert cached.problem == "the store is away; retry"
    store.before = go_on
    cached.list("a/")
    assert cached.problem == ""


async def test_of_a_folder_that_is_away_it_is_told_until_it_is_back(tmp_path: Path) -> None:
    store = FilesystemBackend(tmp_path / "memory")
    async with serving(memory_over(store)) as stubs:
        await stubs.add(parts(new()))
        assert await problem(stubs) == ""
        (tmp_path / "memory").rename(tmp_path / "away")
        assert (await stubs.recall()).stale_s > 0
        assert "the memory's store is away" in await problem(stubs)
        (tmp_path / "away").rename(tmp_path / "memory")
        assert (await stubs.recall()).stale_s == 0
        assert await problem(stubs) == ""


async def test_of_an_object_store_that_is_away_it_is_told_until_it_is_back(proxy: S3Proxy, s3_store: S3Backend) -> None:
    store = open_store(proxy.endpoint)
    async with serving(memory_over(store)) as stubs:
        await stubs.add(parts(new()))
        assert await problem(stubs) == ""
        proxy.down()
        assert (await stubs.recall()).stale_s > 0
        assert f"{proxy.endpoint} cannot be reached" in await problem(stubs)
        proxy.up()
        assert (await stubs.recall()).stale_s == 0
        assert await problem(stubs) == ""
    store.close()


# The door, and the command.


async def test_the_door_tells_the_problem_of_a_memory_that_is_ready(
    start: Start, cast: Cast, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    stub = await start()

    async def told() -> dict[str, tuple[bool, str]]:
        services = (await stub.GetStatus(pb.GetStatusRequest())).services
        return {service.name: (service.ready, service.problem) for service in services if service.problem}

    async def printed() -> tuple[int, str]:
        words = ["--address", deployment.served["orchestrator"].address, "status"]
        return await asyncio.to_thread(command.main, words), capsys.readouterr().out

    assert await told() == {}
    cast.memory.problem = "the object store at http://s3:9000 cannot be reached"
    assert await told() == {"memory": (True, cast.memory.problem)}
    status, lines = await printed()
    assert f"memory                 ready      fake; {cast.memory.problem}\n" in lines
    assert status == 1
    cast.memory.problem = ""
    status, lines = await printed()
    assert "memory                 ready      fake\n" in lines
    assert status == 0
