"""Variants of the writer, and the check of all variants before a table is taken."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from services.mllm import domain
from tests.deployment import Cast
from tests.fake_voters import FakeLead, FakeVoter
from tests.serving import refused
from tests.split_panel import asked, split, write
from tests.understanding_service import INVALID, Panel, emotion

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub


def order(variant: str, version: int) -> pb.WriteReplyRequest:
    reply = mllm.WriteReplyRequest(
        text="I lost my job.", user_emotion=emotion("sad"), reply_emotion=emotion("caring"), seed=7
    )
    return pb.WriteReplyRequest(reply=reply, variant=variant, variants_version=version)


async def written(stub: "Stub", variant: str, version: int) -> tuple[str, str]:
    """First sentence of a reply, and the service that wrote it."""
    parts = [part async for part in stub.WriteReply(order(variant, version), timeout=20)]
    return parts[0].sentence, parts[0].card.backend


@pytest.fixture
def other() -> FakeLead:
    """The variant b of the writer."""
    lead = FakeLead({"sad": 1.0})
    lead.sentences = ("Oh no.",)
    return lead


@pytest.fixture
def deaf() -> FakeVoter:
    """A voter that perceives text alone and tells classes only, and that cannot write."""
    voter = FakeVoter({"furious": 1.0})
    voter.card = replace(voter.card, perceives=frozenset({domain.Modality.TEXT}), level=domain.Level.CLASS)
    return voter


@pytest.fixture
def cast(other: FakeLead, deaf: FakeVoter, path: Path) -> Cast:
    return Cast(vote_deadline_s=20, variants_file=path, variant_voters={"lead-b": other, "deaf": deaf})


async def test_the_named_variant_writes_the_reply(stub: "Stub", panel: Panel, path: Path, cast: Cast) -> None:
    table = split(7, writer={"b": panel.addresses["lead-b"]})
    await write(path, table)
    assert await stub.CheckVariants(asked(table, ["b"])) == pb.CheckVariantsResponse()
    assert await written(stub, "b", 7) == ("Oh no.", "lead-b")
    assert cast.lead.orders == []
    for variant, version in (("default", 7), ("", 7), ("", 0), ("default", 0)):
        assert await written(stub, variant, version) == (cast.lead.sentences[0], "lead")
    seats = (await stub.GetPanel(pb.GetPanelRequest())).writers
    assert [(seat.voter, seat.variant, seat.model.card.backend) for seat in seats] == [
        ("lead", "default", "lead"),
        ("lead", "b", "lead-b"),
    ]


async def test_a_writer_that_is_unknown_or_away_is_refused_and_the_gateway_names_the_control(
    stub: "Stub", path: Path, nobody: str
) -> None:
    await write(path, split(7, writer={"c": nobody}))
    with refused(grpc.StatusCode.UNAVAILABLE, "writer: no replica of variant c takes calls: "):
        await written(stub, "c", 7)
    reason = "variant d of writer is not in the panel's table, version 7; the gateway chose from version 8"
    with refused(grpc.StatusCode.UNAVAILABLE, reason):
        await written(stub, "d", 8)
    assert (await written(stub, "default", 8))[1] == "lead"


# CheckVariants


async def test_what_a_variant_lacks_is_said(stub: "Stub", panel: Panel) -> None:
    deaf = panel.addresses["deaf"]
    found = await stub.CheckVariants(asked(split(7, mllm_text={"b": deaf}, mllm_face={"b": deaf}), ["b"]))
    assert list(found.lost) == [
        "stages.mllm-text.variants.b: it does not perceive audio, video",
        "stages.mllm-text.variants.b: it tells classes only",
        "stages.mllm-face.variants.b: it does not perceive audio, video",
    ]
    assert (list(found.problems), list(found.not_ready)) == ([], [])


async def test_a_writer_that_cannot_write_is_a_problem(stub: "Stub", panel: Panel) -> None:
    found = await stub.CheckVariants(asked(split(7, writer={"b": panel.addresses["deaf"]}), ["b"]))
    assert list(found.problems) == ["stages.writer.variants.b: its model cannot write replies"]


async def test_another_ontology_is_a_problem(panel: Panel, cast: Cast) -> None:
    cast.wheels = {"mllm deaf": replace(cast.wheel(""), digest="f" * 64)}
    stub = await panel.start()
    found = await stub.CheckVariants(asked(split(7, mllm_text={"b": panel.addresses["deaf"]}), ["b"]))
    (problem,) = found.problems
    assert problem.startswith("stages.mllm-text.variants.b: it uses emotion wheel ffffffffffff, the panel ")


async def test_a_needed_variant_without_a_replica_is_not_ready_and_another_may_be_away(
    stub: "Stub", nobody: str
) -> None:
    found = await stub.CheckVariants(asked(split(7, mllm_text={"b": nobody, "c": nobody}), ["b"]))
    (problem,) = found.not_ready
    assert problem.startswith("stages.mllm-text.variants.b: no replica takes calls: ")
    assert (list(found.problems), list(found.lost)) == ([], [])


async def test_a_voter_that_is_not_on_the_panel_is_a_problem(stub: "Stub") -> None:
    found = await stub.CheckVariants(asked(split(7, mllm_nose={}), []))
    known = "mllm-text, mllm-face, mllm-lead, writer"
    assert list(found.problems) == [f"stages.mllm-nose: the panel has no such stage; use one of: {known}"]


async def test_a_stage_without_a_control_is_refused(stub: "Stub") -> None:
    request = pb.CheckVariantsRequest(variants=[pb.StageVariant(stage="writer", variant="b")])
    with refused(INVALID, "variants: control"):
        await stub.CheckVariants(request)
