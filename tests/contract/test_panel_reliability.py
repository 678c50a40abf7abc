"""Track records of voters over real channels: a liar, a late voter, a new variant."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e3rg.understanding.v1 import understanding_pb2 as pb
from tests.deployment import Cast
from tests.fake_voters import FakeVoter
from tests.fakes import PATIENCE_S
from tests.odd_voters import Panel, answer, understand
from tests.split_panel import named, split, write
from tests.understanding_service import Panel as SplitPanel
from tests.understanding_service import context
from tests.understanding_service import understand as understand_parts

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

LABELS = ("sad", "furious", "terrified")


@pytest.fixture
async def panel() -> AsyncIterator[Panel]:
    panel = Panel()
    yield panel
    await panel.stop()


def say(label: str, *voters: FakeVoter) -> None:
    for voter in voters:
        voter.prediction = replace(voter.prediction, distribution={label: 1.0})


async def test_a_voter_that_always_says_the_same_is_recorded_and_not_counted(panel: Panel) -> None:
    panel.odd.answer = answer({"furious": 1.0})
    stub = await panel.start()
    for number in range(60):
        say(LABELS[number % 3], panel.cast.lead, panel.sad[0])
        record = (await understand(stub)).record
    odd, other, _ = record.votes
    assert (odd.status, odd.prediction.label, odd.weight) == (pb.VOTE_STATUS_VOTED, "furious", 0)
    assert odd.reason == "on probation: it agrees with the other voters no better than chance"
    assert odd.reliability.standing == pb.STANDING_PROBATION
    assert odd.reliability.agreement == pytest.approx(0, abs=0.05)
    assert (odd.reliability.messages, odd.reliability.abstained, odd.reliability.late) == (59, 0, 0)
    assert other.reliability.standing == pb.STANDING_COUNTED
    assert other.reliability.agreement > 0.5
    assert dict(record.tally) == {"fear": 2}


async def test_a_voter_that_is_always_late_is_not_waited_for_until_it_is_on_time(panel: Panel) -> None:
    # Time for the honest voters on a busy machine; the late one takes it five times.
    panel.cast.vote_deadline_s = 4
    panel.odd.ready.clear()
    stub = await panel.start()
    first = (await understand(stub)).record.votes[0].reliability
    assert (first.standing, first.messages, first.HasField("agreement")) == (pb.STANDING_COUNTED, 0, False)
    async with asyncio.timeout(PATIENCE_S):
        while (await understand(stub)).record.votes[0].reliability.standing != pb.STANDING_NOT_WAITED_FOR:
            pass
        record = (await understand(stub)).record
        assert (record.early, record.votes[0].status) == (True, pb.VOTE_STATUS_LATE)
        assert record.votes[0].reason == "no answer by the decision, which does not wait for a voter that is often late"
        panel.odd.ready.set()
        while (await understand(stub)).record.votes[0].reliability.standing != pb.STANDING_COUNTED:
            pass
    assert dict((await understand(stub)).record.tally) == {"sad": 2, "angry": 1}


async def test_a_new_variant_counts_after_a_probation_or_where_the_caller_names_it(tmp_path: Path) -> None:
    path = tmp_path / "variants.json"
    variants = {"text-b": FakeVoter({"sad": 1.0})}
    split_panel = SplitPanel(Cast(vote_deadline_s=20, variants_file=path, variant_voters=variants))
    try:
        stub = await split_panel.start()
        await write(path, split(7, mllm_text={"b": split_panel.addresses["text-b"]}))
        cast = split_panel.cast
        for number in range(30):
            say(LABELS[number % 3], cast.text, cast.lead)
            await understand_parts(stub, named(7), context())
        by_name = await vote_of_b(stub, by_caller=True)
        assert (by_name.weight, by_name.reliability.standing) == (1, pb.STANDING_COUNTED)
        by_table = await vote_of_b(stub)
        assert (by_table.status, by_table.weight) == (pb.VOTE_STATUS_VOTED, 0)
        assert by_table.reason == "on probation: it is new to the panel"
        assert by_table.reliability.standing == pb.STANDING_PROBATION
        async with asyncio.timeout(PATIENCE_S):
            while (vote := await vote_of_b(stub)).reliability.standing != pb.STANDING_COUNTED:
                pass
        assert (vote.weight, vote.reliability.messages) == (1, 20)
    finally:
        await split_panel.stop_all()


async def vote_of_b(stub: "Stub", by_caller: bool = False) -> pb.Vote:
    b = pb.VoterVariant(voter="text", variant="b", named=by_caller)
    record = (await understand_parts(stub, named(7, b), context())).record
    (vote,) = [each for each in record.votes if each.voter == "text"]
    assert vote.variant == "b"
    return vote
