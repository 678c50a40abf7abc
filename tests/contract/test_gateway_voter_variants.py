"""Variants of voters and writer through a gateway, which has the panel check them before it takes their table."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client import command
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from services.common.variants.table import Stage, Table, Variant
from tests.deployment import Cast, Deployment
from tests.fake_voters import FakeLead, FakeVoter
from tests.fakes import PATIENCE_S
from tests.split_panel import split, write
from tests.turns import REPLY, Start, header, lost, respond

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

TEXT = header(output=pb.OUTPUT_TEXT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "variants.json"


@pytest.fixture
def cast(cast: Cast, path: Path) -> Cast:
    other = FakeLead({"sad": 1.0})
    other.sentences = ("Oh no.",)
    cast.variants_file = path
    cast.variant_voters = {"text-b": FakeVoter({"furious": 1.0}), "lead-b": other}
    return cast


def all_to_b(version: int, **addresses: str) -> Table:
    """Return a table in which "b" has all traffic of each stage, and "default" stays the control."""
    stages = {
        stage.replace("_", "-"): Stage(variants={"default": Variant(), "b": Variant(address=address, weight=100)})
        for stage, address in addresses.items()
    }
    return Table(version=version, stages=stages)


async def problem(stub: "Stub", text: str) -> str:
    """Wait until the gateway refuses a table for a reason that has this text."""
    async with asyncio.timeout(PATIENCE_S):
        while text not in (found := (await stub.GetStatus(pb.GetStatusRequest())).services[0].problem):
            await asyncio.sleep(0)
    return found


async def test_a_turn_is_voted_on_and_written_by_the_variants_of_the_table(
    start: Start, deployment: Deployment, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub = await start()
    text, writer = (deployment.served[name].address for name in ("mllm-text-b", "mllm-lead-b"))
    await write(path, all_to_b(7, mllm_text=text, writer=writer))
    async with asyncio.timeout(PATIENCE_S):
        while (turn := await respond(stub, TEXT)).sentences != ["Oh no."]:
            assert (turn.done.text, lost(turn)) == (REPLY, [])
    assert lost(turn) == []
    votes = turn.understood.record.votes
    assert [(each.voter, each.variant, each.card.backend) for each in votes] == [
        ("text", "b", "mllm-text-b"),
        ("face", "default", "face"),
        ("lead", "default", "lead"),
    ]
    services = (await stub.GetStatus(pb.GetStatusRequest())).services
    assert [(each.name, each.variant, each.ready) for each in services if each.name in ("mllm text", "writer")] == [
        ("mllm text", "default", True),
        ("mllm text", "b", True),
        ("writer", "default", True),
        ("writer", "b", True),
    ]
    words = ["--address", deployment.served["orchestrator"].address, "status"]
    assert await asyncio.to_thread(command.main, words) == 0
    printed = capsys.readouterr().out
    assert "mllm text              ready " in printed
    assert "mllm text b            ready " in printed


async def test_a_table_with_a_writer_that_cannot_write_is_refused(
    start: Start, deployment: Deployment, path: Path
) -> None:
    stub = await start()
    await write(path, all_to_b(7, writer=deployment.served["mllm-text-b"].address))
    refused = await problem(stub, "stages.writer.variants.b: ")
    assert refused == "the table of variants is refused: stages.writer.variants.b: its model cannot write replies"
    turn = await respond(stub, TEXT)
    assert (turn.done.text, lost(turn)) == (REPLY, [])


async def test_a_table_with_a_voter_that_is_not_on_the_panel_is_refused(start: Start, path: Path) -> None:
    stub = await start()
    await write(path, split(7, mllm_nose={}))
    assert "stages.mllm-nose: the panel has no such stage" in await problem(stub, "mllm-nose")


async def test_a_table_waits_for_a_panel_that_is_away(start: Start, deployment: Deployment, path: Path) -> None:
    stub = await start()
    await deployment.stop("understanding")
    await write(path, all_to_b(7, mllm_text=deployment.served["mllm-text-b"].address))
    assert "understanding" in await problem(stub, "the table of variants is refused")
