"""Experiments at a gateway over a real memory: started, compared, ended."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2
from e3rg.orchestrator.v1 import variants_pb2 as pb
from orchestrator.variants.counts import Outcome
from services.common.variants.table import Table
from services.memory.settings import MemorySettings
from tests.fakes import PATIENCE_S
from tests.serving import refused
from tests.support.memory import serving
from tests.support.trials import TRIAL, Talkers
from tests.variant_admin import Gateway, gateway

START = pb.StartExperiment(id=TRIAL, stage="tts", hypothesis="It sounds warmer.", primary="rating", users_min=20)
HALVES = {"default": {"weight": 50}, "kokoro": {"address": "voice-b:50054", "weight": 50}}
COMPARE = pb.CompareVariantsRequest()
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
async def talkers(tmp_path: Path) -> AsyncIterator[Talkers]:
    async with serving(MemorySettings(folder=tmp_path / "memory")) as stubs:
        talkers = Talkers(stubs)
        await talkers.move_in()
        yield talkers


@pytest.fixture
async def mine(tmp_path: Path, talkers: Talkers) -> AsyncIterator[Gateway]:
    """A gateway whose conversations two voices share."""
    async with gateway(tmp_path / "variants.json", memory=talkers.stubs.channel) as found:
        await found.write(Table.model_validate({"version": 1, "stages": {"tts": {"variants": HALVES}}}))
        async with asyncio.timeout(3 * PATIENCE_S):
            yield found


def change(**fields: Any) -> pb.ChangeVariantsRequest:
    return pb.ChangeVariantsRequest(by="ada", **fields)


def start(**fields: Any) -> pb.ChangeVariantsRequest:
    wanted = pb.StartExperiment()
    wanted.CopyFrom(START)
    wanted.MergeFrom(pb.StartExperiment(**fields))
    return change(start=wanted)


def stop(id: str = TRIAL) -> pb.ChangeVariantsRequest:
    return change(stop=pb.StopExperiment(id=id))


def primary(told: pb.CompareVariantsResponse) -> pb.Difference:
    (found,) = [each for each in told.differences if each.primary]
    return found


async def test_an_experiment_begins_with_a_salt_of_its_own_and_its_first_phase(mine: Gateway) -> None:
    made = await mine.stub.ChangeVariants(start())
    assert made.summary == f"experiment {TRIAL} of tts started: rating decides, with 20 users a variant"
    first = mine.table().experiment
    assert first
    assert (first.control, first.phases) == ("default", ({"default": 50, "kokoro": 50},))
    await mine.stub.ChangeVariants(stop())
    await mine.stub.ChangeVariants(start(id="again"))
    second = mine.table().experiment
    assert second
    assert second.salt != first.salt
    shown = await mine.stub.GetVariants(pb.GetVariantsRequest())
    assert (shown.experiment.id, shown.experiment.users_min, [each.id for each in shown.ended]) == (
        "again",
        20,
        [TRIAL],
    )


async def test_the_better_voice_is_found_and_its_outcome_is_kept(mine: Gateway, talkers: Talkers) -> None:
    await mine.stub.ChangeVariants(start())
    await talkers.crowd("default", 24, 2)
    await talkers.crowd("kokoro", 26, 4)
    told = await mine.stub.CompareVariants(COMPARE)
    assert (told.stage, told.control, told.experiment.id) == ("tts", "default", TRIAL)
    assert [(each.name, each.turns, each.conversations, each.users) for each in told.variants] == [
        ("default", 24, 24, 24),
        ("kokoro", 26, 26, 26),
    ]
    found = primary(told)
    assert (found.variant, found.metric, found.verdict) == ("kokoro", "rating", "better")
    assert 0 < found.estimate.lower < found.estimate.value < found.estimate.upper
    assert [(each.number, each.mismatch) for each in told.phases] == [(1, False)]
    ended = (await mine.stub.ChangeVariants(stop())).summary
    assert ended.startswith(f"experiment {TRIAL} ended: rating of kokoro: better, +1.96 (+0.")
    assert ended.endswith(", 26 and 24 users")
    again = await mine.stub.CompareVariants(pb.CompareVariantsRequest(experiment=TRIAL))
    assert primary(again) == found
    assert again.experiment.ended_at_s > 0
    assert again.experiment.result in ended


async def test_an_erased_user_leaves_the_comparison_and_the_outcome_stays(mine: Gateway, talkers: Talkers) -> None:
    await mine.stub.ChangeVariants(start())
    await talkers.crowd("default", 3, 3)
    await talkers.crowd("kokoro", 2, 3)
    await mine.stub.ChangeVariants(stop())
    request = erasure_pb2.ErasePersonRequest(tenant="acme", person="kokoro-1-0", asked_by="kokoro-1-0")
    await talkers.stubs.erasure.ErasePerson(request)
    told = await mine.stub.CompareVariants(pb.CompareVariantsRequest(experiment=TRIAL))
    assert [(each.name, each.users) for each in told.variants] == [("default", 3), ("kokoro", 1)]
    assert told.experiment.result.startswith("rating of kokoro: too few users: 2 of 20")


async def test_failed_turns_are_told_though_none_is_kept(mine: Gateway, talkers: Talkers) -> None:
    await mine.stub.ChangeVariants(start())
    await talkers.say("bob", "kokoro", 5)
    mine.ledger.add([Outcome("tts", "kokoro", failed=True), Outcome("tts", "kokoro"), Outcome("tts", "default")])
    for asked in (COMPARE, pb.CompareVariantsRequest(stage="tts")):
        told = {each.name: each for each in (await mine.stub.CompareVariants(asked)).variants}
        assert (told["kokoro"].counted_turns, told["kokoro"].failed_turns, told["kokoro"].turns) == (2, 1, 1)
    await mine.stub.ChangeVariants(stop())
    told = {
        each.name: each
        for each in (await mine.stub.CompareVariants(pb.CompareVariantsRequest(experiment=TRIAL))).variants
    }
    assert told["kokoro"].failed_turns == 1


async def test_who_saw_both_voices_is_told_and_compared_with_neither(mine: Gateway, talkers: Talkers) -> None:
    await mine.stub.ChangeVariants(start())
    await talkers.say("bob", "kokoro", 5)
    await talkers.say("bob", "default", 1, conversation="older")
    await talkers.say("ann", "default", 3)
    await talkers.say("eve", "gone", 3)
    told = await mine.stub.CompareVariants(COMPARE)
    assert [(each.name, each.users, each.excluded_users) for each in told.variants] == [
        ("default", 1, 0),
        ("kokoro", 0, 1),
    ]
    assert told.users_left_out == 1


async def test_a_split_that_is_not_as_the_weights_say_is_told_and_nothing_is_decided(
    mine: Gateway, talkers: Talkers
) -> None:
    await mine.stub.ChangeVariants(start())
    await talkers.crowd("default", 80, 2)
    await talkers.crowd("kokoro", 20, 4)
    told = await mine.stub.CompareVariants(COMPARE)
    (phase,) = told.phases
    assert phase.mismatch
    assert [(each.name, each.share, each.users) for each in phase.variants] == [
        ("default", 0.5, 80),
        ("kokoro", 0.5, 20),
    ]
    assert primary(told).verdict == "no verdict: sample-ratio mismatch"


async def test_a_change_of_weights_begins_a_phase_whose_users_are_compared_with_each_other(
    mine: Gateway, talkers: Talkers
) -> None:
    await mine.stub.ChangeVariants(start())
    await talkers.crowd("default", 3, 3)
    await mine.stub.ChangeVariants(change(set=pb.SetWeights(stage="tts", weights={"kokoro": 90})))
    await talkers.crowd("kokoro", 4, 3, phase=2)
    told = await mine.stub.CompareVariants(COMPARE)
    assert [[(each.name, each.users) for each in phase.variants] for phase in told.phases] == [
        [("default", 3), ("kokoro", 0)],
        [("default", 0), ("kokoro", 4)],
    ]
    assert not primary(told).HasField("estimate")


async def test_metrics_are_those_that_the_memory_has(mine: Gateway, talkers: Talkers) -> None:
    await mine.stub.ChangeVariants(start(primary="first_sound_s"))
    for number in range(3):
        await talkers.say(f"a{number}", "default", first_sound_s=0.5 + number / 10, scores={"agrees-text": 1})
        await talkers.say(f"b{number}", "kokoro", first_sound_s=1.5 + number / 10)
    told = await mine.stub.CompareVariants(COMPARE)
    # Failed turns are not kept: there is no share of them.
    assert [each.metric for each in told.differences] == ["first_sound_s", "rating", "degraded_share", "agrees-text"]
    assert primary(told).estimate.value == pytest.approx(1.0)
    means = {each.metric: each for each in told.variants[0].means}
    assert (means["agrees-text"].users, means["agrees-text"].estimate.value) == (3, 1)
    # Values without any variance tell nothing of how certain they are.
    assert not means["agrees-text"].estimate.HasField("upper")
    assert (means["rating"].users, means["rating"].HasField("estimate")) == (0, False)


async def test_a_stage_without_an_experiment_is_shown_and_nothing_is_decided(mine: Gateway, talkers: Talkers) -> None:
    for number in range(30):
        await talkers.say(f"a{number}", "default", 1 + number % 2, experiment="")
        await talkers.say(f"b{number}", "kokoro", 4 + number % 2, experiment="")
    told = await mine.stub.CompareVariants(pb.CompareVariantsRequest(stage="tts"))
    assert [(each.name, each.users) for each in told.variants] == [("default", 30), ("kokoro", 30)]
    assert (round(primary(told).estimate.value, 6), primary(told).verdict) == (3, "")
    assert (list(told.phases), told.HasField("experiment")) == ([], False)
    none = await mine.stub.CompareVariants(pb.CompareVariantsRequest(stage="tts", until_s=1))
    assert [(each.name, each.users) for each in none.variants] == [("default", 0)]


async def test_a_picture_is_drawn_where_one_is_wanted(mine: Gateway, talkers: Talkers) -> None:
    await mine.stub.ChangeVariants(start())
    await talkers.crowd("default", 21, 2)
    await talkers.crowd("kokoro", 21, 4)
    assert not (await mine.stub.CompareVariants(COMPARE)).svg
    told = await mine.stub.CompareVariants(pb.CompareVariantsRequest(svg=True))
    assert told.svg.startswith("<svg ")
    assert "rating: kokoro minus default, better" in told.svg


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        (start(primary="charm"), INVALID, "start.primary: 'charm' is no metric; use one of: agrees-face, "),
        (start(users_min=3), INVALID, "start: users_min: '3'"),
        (start(id="A b"), INVALID, "start: id: 'A b'"),
        (start(stage="video"), INVALID, "start.stage: video has one variant; put another beside it first"),
        (start(stage="ears"), INVALID, "start.stage: 'ears' is no stage; use one of: "),
        (start(hypothesis="h" * 501), INVALID, "start: hypothesis: "),
        (stop(), grpc.StatusCode.NOT_FOUND, f"experiment '{TRIAL}' is unknown; no experiment runs"),
    ],
)
async def test_what_cannot_be_tried_is_refused_with_what_would_be_right(
    mine: Gateway, request_: pb.ChangeVariantsRequest, status: grpc.StatusCode, text: str
) -> None:
    before = mine.table()
    with refused(status, text):
        await mine.stub.ChangeVariants(request_)
    assert mine.table() == before


async def test_one_experiment_runs_at_a_time_and_its_id_is_used_once(mine: Gateway) -> None:
    await mine.stub.ChangeVariants(start())
    with refused(INVALID, f"start: experiment {TRIAL} of tts runs; stop it first"):
        await mine.stub.ChangeVariants(start(id="other"))
    with refused(grpc.StatusCode.NOT_FOUND, f"experiment 'other' is unknown; {TRIAL} runs"):
        await mine.stub.ChangeVariants(stop("other"))
    await mine.stub.ChangeVariants(stop())
    with refused(INVALID, f"start.id: '{TRIAL}' was an experiment before"):
        await mine.stub.ChangeVariants(start())
    with refused(grpc.StatusCode.NOT_FOUND, f"no experiment runs; name one that ran before: {TRIAL}"):
        await mine.stub.CompareVariants(COMPARE)


async def test_any_score_that_the_memory_has_can_decide(mine: Gateway, talkers: Talkers) -> None:
    await talkers.say("bob", "default", scores={"charm": 1})
    assert (await mine.stub.ChangeVariants(start(primary="charm"))).version == 2


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.CompareVariantsRequest(stage="ears"), "stage: 'ears' is no stage"),
        (pb.CompareVariantsRequest(stage="tts", experiment=TRIAL), "stage: an experiment is named too"),
        (pb.CompareVariantsRequest(from_s=1), "stage: missing; a time range is for a stage"),
        (pb.CompareVariantsRequest(stage="tts", from_s=-1), "from_s: "),
    ],
)
async def test_a_wrong_question_is_refused(mine: Gateway, request_: pb.CompareVariantsRequest, text: str) -> None:
    with refused(INVALID, text):
        await mine.stub.CompareVariants(request_)


async def test_without_the_memory_nothing_is_compared_and_an_experiment_still_ends(tmp_path: Path) -> None:
    async with gateway(tmp_path / "variants.json") as alone, asyncio.timeout(2 * PATIENCE_S):
        await alone.write(Table.model_validate({"version": 1, "stages": {"tts": {"variants": HALVES}}}))
        await alone.stub.ChangeVariants(start())
        with refused(grpc.StatusCode.UNAVAILABLE, "memory"):
            await alone.stub.CompareVariants(COMPARE)
        assert ": not compared: memory" in (await alone.stub.ChangeVariants(stop())).summary


async def test_where_the_chart_owns_the_table_the_experiment_to_commit_is_told(mine: Gateway) -> None:
    await mine.write(Table.model_validate({"owner": "helm", "stages": {"tts": {"variants": HALVES}}}))
    with refused(
        grpc.StatusCode.FAILED_PRECONDITION, 'variants:\n  experiment:\n    id: "warm-voice"\n    stage: "tts"'
    ):
        await mine.stub.ChangeVariants(start())


async def test_a_gateway_that_does_not_administer_variants_compares_none(tmp_path: Path) -> None:
    async with gateway(tmp_path / "variants.json", admin=False) as off:
        with refused(grpc.StatusCode.UNIMPLEMENTED, "E3RG_ORCHESTRATOR_VARIANT_ADMIN=true"):
            await off.stub.CompareVariants(COMPARE)
