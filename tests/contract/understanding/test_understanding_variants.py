"""Variants of voters, named by a gateway, over real channels to two models of one voter."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import REGISTRY

from e3rg.understanding.v1 import understanding_pb2 as pb
from services.common.variants.table import Variant
from tests.deployment import Cast
from tests.fake_voters import FakeVoter
from tests.fakes import PATIENCE_S, Gate
from tests.split_panel import asked, named, split, write
from tests.support.waiting import until
from tests.understanding_service import Panel, context, understand, understand_text

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

B = pb.VoterVariant(voter="text", variant="b")


@pytest.fixture
def other() -> FakeVoter:
    """The variant b of the voter text."""
    return FakeVoter({"furious": 1.0})


@pytest.fixture
def cast(other: FakeVoter, path: Path) -> Cast:
    return Cast(vote_deadline_s=20, variants_file=path, variant_voters={"text-b": other})


@pytest.fixture
async def stub(panel: Panel, path: Path, nobody: str) -> "Stub":
    """A panel that has the table of version 7, with a ready b and an absent c of the voter text."""
    stub = await panel.start()
    table = split(7, mllm_text={"b": panel.addresses["text-b"], "c": nobody})
    await write(path, table)
    assert await stub.CheckVariants(asked(table, ["b"])) == pb.CheckVariantsResponse()
    return stub


def vote_of_text(answer: pb.UnderstandResponse) -> pb.Vote:
    (vote,) = [each for each in answer.record.votes if each.voter == "text"]
    return vote


async def test_the_named_variant_votes_and_the_record_names_it(stub: "Stub", cast: Cast) -> None:
    answer = await understand(stub, named(7, B), context())
    assert [(each.voter, each.variant) for each in answer.record.votes] == [
        ("text", "b"),
        ("face", "default"),
        ("lead", "default"),
    ]
    vote = vote_of_text(answer)
    assert (vote.prediction.label, vote.card.backend) == ("furious", "text-b")
    assert (cast.text.messages, list(answer.notes)) == ([], [])
    votes = {"voter": "text", "variant": "b", "status": "voted"}
    assert (REGISTRY.get_sample_value("e3rg_panel_votes_total", votes) or 0) >= 1


async def test_a_voter_that_is_not_named_votes_with_its_control(stub: "Stub", other: FakeVoter) -> None:
    for parts in ((named(7), context()), (named(0), context())):
        assert vote_of_text(await understand(stub, *parts)).variant == "default"
    assert other.messages == []


async def test_a_message_waits_for_the_version_that_its_gateway_chose_from(panel: Panel, path: Path) -> None:
    stub = await panel.start()
    answering = asyncio.create_task(understand(stub, named(7, B), context()))
    await write(path, split(7, mllm_text={"b": panel.addresses["text-b"]}))
    # Known by now, whether its replica was ready in time or not.
    vote = vote_of_text(await answering)
    assert vote.status == pb.VOTE_STATUS_VOTED


async def test_a_variant_that_the_panel_does_not_know_fails_and_no_other_votes_instead(
    stub: "Stub", cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    strange = pb.VoterVariant(voter="text", variant="d")
    # The table of version 8 never comes: only the first message waits for it.
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(12):
            vote = vote_of_text(await understand(stub, named(8, strange), context()))
    assert (vote.status, vote.variant) == (pb.VOTE_STATUS_FAILED, "d")
    assert vote.reason == "variant d of text is not in the panel's table, version 7; the gateway chose from version 8"
    assert cast.text.messages == []
    told = "a gateway chose from a table of variants that is not known here"
    assert [record.getMessage() for record in caplog.records].count(told) == 1
    # One that the panel's own table has is used all the same.
    assert vote_of_text(await understand(stub, named(8, B), context())).variant == "b"


async def test_who_is_not_named_never_votes_by_another_version(
    stub: "Stub", panel: Panel, path: Path, other: FakeVoter
) -> None:
    table = split(9, mllm_text={"b": panel.addresses["text-b"]})
    stage = table.stage("mllm-text").model_copy(
        update={"control": "b", "variants": {"b": Variant(address=panel.addresses["text-b"], weight=100)}}
    )
    await write(path, table.model_copy(update={"stages": {"mllm-text": stage}}))
    async with asyncio.timeout(PATIENCE_S):
        while vote_of_text(await understand(stub, named(9), context())).variant != "b":
            pass
    asked_before = len(other.messages)
    assert vote_of_text(await understand(stub, named(10), context())).variant == "default"
    assert len(other.messages) == asked_before


async def test_the_control_votes_for_a_variant_without_a_ready_replica_and_a_note_says_so(stub: "Stub") -> None:
    answer = await understand(stub, named(7, pb.VoterVariant(voter="text", variant="c")), context())
    vote = vote_of_text(answer)
    assert (vote.status, vote.variant, vote.card.backend) == (pb.VOTE_STATUS_VOTED, "default", "text")
    assert list(answer.notes) == ["mllm-text: 'default' votes instead of 'c': no replica of it takes calls"]


async def test_who_sits_on_the_panel_is_told_with_all_variants(stub: "Stub") -> None:
    await understand(stub, named(7), context())  # The table is taken by then.
    found = await stub.GetPanel(pb.GetPanelRequest())
    assert [(seat.voter, seat.variant, seat.model.card.backend) for seat in found.seats] == [
        ("text", "default", "text"),
        ("text", "b", "text-b"),
        ("text", "c", ""),
        ("face", "default", "face"),
        ("lead", "default", "lead"),
    ]
    assert found.seats[2].problem.startswith("mllm text, variant c: ")
    assert list(found.writers) == []


# Shadows


def shadowed(*shadows: str) -> pb.UnderstandRequest:
    return named(7, pb.VoterVariant(voter="text", variant="default", shadows=shadows))


async def test_a_shadow_is_recorded_and_counts_for_nothing(stub: "Stub", cast: Cast, other: FakeVoter) -> None:
    other.prediction = replace(other.prediction, crisis=True)
    cast.text.before = gate = Gate("predict")
    labels = {"stage": "mllm-text", "variant": "b", "outcome": "ok"}

    def shadows() -> float:
        return REGISTRY.get_sample_value("e3rg_shadow_seconds_count", labels) or 0

    before = shadows()
    answering = asyncio.create_task(understand(stub, shadowed("b"), context()))
    await until(lambda: shadows() > before)
    gate.open()
    answer = await answering
    (shadow,) = answer.record.shadow_votes
    assert (shadow.voter, shadow.variant, shadow.card.backend) == ("text", "b", "text-b")
    assert (shadow.prediction.label, shadow.weight, shadow.prediction.crisis) == ("furious", 0, True)
    alone = (await understand_text(stub)).record
    assert (dict(answer.record.tally), answer.HasField("risk")) == (dict(alone.tally), False)
    assert [(each.voter, each.variant) for each in answer.record.votes] == [
        (name, "default") for name in ("text", "face", "lead")
    ]


async def test_a_shadow_that_hangs_delays_nothing_and_is_called_off(stub: "Stub", other: FakeVoter) -> None:
    other.before = gate = Gate("predict")
    labels = {"stage": "mllm-text", "variant": "b", "outcome": "cancelled"}
    before = REGISTRY.get_sample_value("e3rg_shadow_seconds_count", labels) or 0
    answer = await understand(stub, shadowed("b"), context())
    assert (answer.record.label, list(answer.record.shadow_votes)) == ("sad", [])
    await until(lambda: (REGISTRY.get_sample_value("e3rg_shadow_seconds_count", labels) or 0) > before)
    gate.open()


async def test_shadows_that_cannot_be_asked_are_skipped_and_nobody_is_warned(
    stub: "Stub", caplog: pytest.LogCaptureFixture
) -> None:
    def skipped(variant: str) -> float:
        labels = {"stage": "mllm-text", "variant": variant}
        return REGISTRY.get_sample_value("e3rg_shadow_skipped_total", labels) or 0

    before = [skipped("c"), skipped("d")]
    answer = await understand(stub, shadowed("c", "d"), context())
    assert ([skipped("c"), skipped("d")], list(answer.record.shadow_votes)) == ([each + 1 for each in before], [])
    voters = [record for record in caplog.records if record.name.startswith("services.understanding")]
    assert [record for record in voters if record.levelno >= logging.WARNING] == []
