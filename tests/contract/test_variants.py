"""The table of variants, shown and changed through gateways."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from e3rg.orchestrator.v1 import variants_pb2 as pb
from services.common.variants.table import State, Table
from tests.serving import refused
from tests.variant_admin import Gateway, gateway, until

SHOW = pb.GetVariantsRequest()
PUT = pb.PutVariant(stage="tts", variant="kokoro", address="voice-b:50054")


def change(**fields: Any) -> pb.ChangeVariantsRequest:
    return pb.ChangeVariantsRequest(**{"by": "ada", "why": "to hear it", **fields})


def weights(stage: str = "tts", **percents: float) -> pb.SetWeights:
    return pb.SetWeights(stage=stage, weights=percents)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "variants.json"


@pytest.fixture
async def mine(path: Path) -> AsyncIterator[Gateway]:
    async with gateway(path) as found:
        yield found


async def test_a_second_voice_comes_gets_traffic_and_takes_over(mine: Gateway) -> None:
    for version, request in enumerate(
        (
            change(put=PUT),
            change(set=weights(kokoro=10)),
            change(state=pb.SetState(stage="tts", variant="kokoro", state="draining")),
            change(set=weights(kokoro=20)),
            change(shadow=pb.SetShadow(stage="tts", variant="kokoro", share=5)),
            change(ramp=pb.StartRamp(stage="tts", variant="kokoro", weights=[30, 60], every_s=60, turns_min=0)),
            change(guardrail=pb.SetGuardrail(stage="tts", on=True, turns_min=5)),
            change(promote=pb.Promote(stage="tts", variant="kokoro")),
            change(rollback=pb.Rollback(stage="tts")),
            change(remove=pb.RemoveVariant(stage="tts", variant="kokoro")),
        ),
        1,
    ):
        made = await mine.stub.ChangeVariants(request)
        # Who was answered finds the change in effect here.
        assert (made.version, made.problem, mine.live.current.version) == (version, "", version)
        assert mine.table() == mine.live.current
        assert made.summary.startswith("tts: ")
        assert mine.table().history[-1].summary == made.summary
    assert [*mine.table().stage("tts").variants] == ["default"]


async def test_the_table_is_shown_with_replicas_and_models(mine: Gateway) -> None:
    await mine.stub.ChangeVariants(change(put=PUT))
    await mine.stub.ChangeVariants(change(guardrail=pb.SetGuardrail(stage="tts", on=True, turns_min=5)))
    ramp = pb.StartRamp(stage="tts", variant="kokoro", weights=[10, 50], every_s=60)
    await mine.stub.ChangeVariants(change(ramp=ramp))
    shown = await mine.stub.GetVariants(SHOW)
    assert (shown.version, shown.owner, shown.problem) == (3, "cli", "")
    assert [stage.name for stage in shown.stages] == ["mllm-text", "tts", "video", "writer"]
    tts = shown.stages[1]
    assert tts.control == "default"
    assert tts.variants[1] == pb.Variant(
        name="kokoro",
        address="voice-b:50054",
        weight=10,
        state="serving",
        replicas=2,
        replicas_ready=1,
        models=["kokoro 0123abcd"],
    )
    assert shown.stages[2].variants == [pb.Variant(name="default", weight=100, state="serving")]
    assert (shown.ramp.variant, list(shown.ramp.weights), shown.ramp.turns_min) == ("kokoro", [50], 30)
    assert shown.guardrails[0].turns_min == 5
    assert shown.guardrails[0].window_s == 300
    assert [each.version for each in shown.history] == [3, 2, 1]
    assert (shown.history[2].by, shown.history[2].why) == ("ada", "to hear it")
    assert shown.history[2].summary == "tts: kokoro added at voice-b:50054, 0 %"
    assert json.loads(shown.table_json)["version"] == 3


async def test_two_gateways_over_one_file_both_take_a_change(mine: Gateway, path: Path) -> None:
    async with gateway(path) as other:
        made = await mine.stub.ChangeVariants(change(put=PUT))
        assert await other.uses(made.version) == mine.live.current


async def test_of_changes_at_the_same_time_none_is_lost(mine: Gateway, path: Path) -> None:
    async with gateway(path) as other:
        names = [f"b{number}" for number in range(12)]
        puts = [pb.PutVariant(stage="tts", variant=name, address=f"{name}:50054") for name in names]
        calls = [each.stub.ChangeVariants(change(put=put)) for each, put in zip([mine, other] * 6, puts, strict=True)]
        versions = [made.version for made in await asyncio.gather(*calls)]
    assert sorted(versions) == list(range(1, 13))
    assert {*mine.table().stage("tts").variants} == {"default", *names}
    assert len(mine.table().history) == 12


async def test_a_change_meant_for_another_version_is_aborted(mine: Gateway) -> None:
    await mine.stub.ChangeVariants(change(put=PUT))
    with refused(grpc.StatusCode.ABORTED, "the table of variants is at version 1, not 5; look at it and try again"):
        await mine.stub.ChangeVariants(change(set=weights(kokoro=10), expected_version=5))
    await mine.stub.ChangeVariants(change(set=weights(kokoro=10), expected_version=1))
    assert mine.table().version == 2


async def test_a_table_that_could_not_serve_is_refused_and_the_file_stays(mine: Gateway) -> None:
    mine.gone.add(PUT.address)
    await mine.stub.ChangeVariants(change(guardrail=pb.SetGuardrail(stage="tts", on=True)))
    before = mine.path.read_bytes()
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "could not serve: voice-b:50054 has no ready replica"):
        await mine.stub.ChangeVariants(change(put=PUT))
    assert mine.path.read_bytes() == before


async def test_a_bad_file_is_told_and_no_change_is_made_of_it(mine: Gateway) -> None:
    await mine.stub.ChangeVariants(change(put=PUT))
    mine.path.write_text('{"version": 2, "stages": {"tts": {"variants": {}}}}', "utf-8")
    await until(mine.live, lambda live: bool(live.problem))
    shown = await mine.stub.GetVariants(SHOW)
    assert (shown.version, shown.problem.startswith("stages.tts.variants: ")) == (1, True)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "stages.tts.variants"):
        await mine.stub.ChangeVariants(change(set=weights(kokoro=10)))


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (pb.ChangeVariantsRequest(), "change: missing; name one"),
        (
            change(set=weights("voice", b=1)),
            "set.stage: 'voice' is no stage; use one of: mllm-text, tts, video, writer",
        ),
        (change(set=weights(b=1)), "set.weights: tts has no variant 'b'; use one of: default; or put it there first"),
        (change(put=PUT, by="a" * 201), "by: 201 characters; send at most 200"),
        (change(put=PUT, why="a" * 501), "why: 501 characters; send at most 500"),
        (
            change(acknowledge=pb.AcknowledgeRollback(stage="tts")),
            "no rollback lies over 'tts'; one lies over: no stage",
        ),
    ],
)
async def test_a_wrong_change_is_refused(mine: Gateway, request_: pb.ChangeVariantsRequest, problem: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, problem):
        await mine.stub.ChangeVariants(request_)
    assert not mine.path.exists()


async def test_a_change_after_which_nothing_is_different_says_so(mine: Gateway) -> None:
    made = await mine.stub.ChangeVariants(change(set=weights(default=100)))
    assert (made.version, made.summary) == (0, "nothing is different")


async def test_a_gateway_administers_nothing_unless_it_is_told_to(path: Path) -> None:
    async with gateway(path, admin=False) as closed:
        for call in (closed.stub.GetVariants(SHOW), closed.stub.ChangeVariants(change(put=PUT))):
            with refused(grpc.StatusCode.UNIMPLEMENTED, "set E3RG_ORCHESTRATOR_VARIANT_ADMIN=true"):
                await call


async def test_a_gateway_without_a_table_says_how_to_give_it_one(path: Path) -> None:
    async with gateway(path, configured=False) as bare:
        assert (await bare.stub.GetVariants(SHOW)).version == 0
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "set E3RG_ORCHESTRATOR_VARIANTS_FILE"):
            await bare.stub.ChangeVariants(change(put=PUT))


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async with gateway(tmp_path / "none" / "variants.json") as lost:
        with refused(grpc.StatusCode.UNAVAILABLE, "the table of variants cannot be written"):
            await lost.stub.ChangeVariants(change(put=PUT))


@pytest.fixture
async def chart(mine: Gateway) -> Gateway:
    """A gateway whose table the chart's values own: a tenth of the traffic goes to kokoro."""
    stage = {"variants": {"default": {"weight": 90}, "kokoro": {"address": "voice-b:50054", "weight": 10}}}
    await mine.write(Table.model_validate({"owner": "helm", "stages": {"tts": stage}}))
    return mine


async def test_values_of_the_chart_are_not_changed_but_written_out(chart: Gateway) -> None:
    before = chart.path.read_bytes()
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "the chart's values own the table") as failure:
        await chart.stub.ChangeVariants(change(set=weights(kokoro=50)))
    assert "        kokoro: 50\n" in (failure.value.details() or "")
    assert chart.path.read_bytes() == before


async def test_a_guardrails_rollback_lies_over_the_chart_until_it_is_acknowledged(chart: Gateway) -> None:
    base, before = chart.live.current, chart.path.read_bytes()
    await chart.writer.roll_back("tts", "kokoro", "first chunk x3", 5.0)
    await until(chart.live, lambda live: live.current != base)
    await chart.writer.roll_back("tts", "kokoro", "first chunk x4", 6.0)
    over = chart.live.current.stage("tts").variants
    assert (over["default"].weight, over["kokoro"].state) == (100, State.OFF)
    assert chart.path.read_bytes() == before
    shown = await chart.stub.GetVariants(SHOW)
    assert [*shown.rollbacks] == [
        pb.GuardrailRollback(stage="tts", variant="kokoro", reason="first chunk x3", at_s=5.0)
    ]
    made = await chart.stub.ChangeVariants(change(acknowledge=pb.AcknowledgeRollback(stage="tts")))
    assert made.summary == "tts: the rollback of kokoro lies over the chart's values no more"
    assert made.version == base.version
    assert chart.live.current == base


async def test_a_guardrails_rollback_is_a_change_where_the_table_may_be_changed(mine: Gateway) -> None:
    await mine.stub.ChangeVariants(change(put=PUT))
    await mine.stub.ChangeVariants(change(set=weights(kokoro=10)))
    await mine.writer.roll_back("tts", "kokoro", "first chunk x3", 5.0)
    assert mine.table().stage("tts").variants["kokoro"].state is State.OFF
    last = mine.table().history[-1]
    assert (last.by, last.why, last.at_s) == ("guardrail", "first chunk x3", 5.0)
