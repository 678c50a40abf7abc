"""What a turn counts for the variants that served it, through all services with fake models."""

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from orchestrator.variants.counts import Outcome
from services.common.errors import BackendFailed, Overloaded
from services.common.variants.table import Stage, Table, Variant, dump
from tests.deployment import Cast
from tests.fakes import Gate, fail
from tests.serving import CallLog, refused
from tests.turns import Start, header, lost, respond


def once(error: Exception, operation: str) -> Callable[..., None]:
    """Return a `before` that raises at the first time of an operation."""
    left = [error]

    def raising(name: str, *_: str) -> None:
        if name == operation and left:
            raise left.pop()

    return raising


@pytest.fixture(autouse=True)
def table(tmp_path: Path, cast: Cast) -> None:
    """All turns go to `b`; the control is `a`."""
    stage = Stage(control="a", variants={"a": Variant(), "b": Variant(weight=100)})
    cast.variants_file = tmp_path / "variants.json"
    split = Table(version=3, stages={"tts": stage, "video": stage, "writer": stage})
    cast.variants_file.write_text(dump(split), "utf-8")


def of(cast: Cast, stage: str) -> list[Outcome]:
    """The outcomes of a stage, without their times."""
    return [Outcome(stage, each.variant, each.failed, each.degraded) for each in cast.outcomes if each.stage == stage]


async def test_a_turn_counts_once_for_each_stage_with_the_time_to_its_first_result(start: Start, cast: Cast) -> None:
    await respond(await start(), header())
    assert {(each.stage, each.variant) for each in cast.outcomes} == {
        *((stage, "b") for stage in ("writer", "tts", "video")),
        *((f"mllm-{voter}", "default") for voter in ("text", "face", "lead")),
    }
    for each in cast.outcomes:
        assert (each.failed, each.degraded) == (False, False), each
        assert 0 < each.first_s < 20, each


async def test_a_variant_whose_work_the_control_does_has_failed(start: Start, cast: Cast) -> None:
    stub = await start()
    cast.voice.before = once(BackendFailed("hoarse"), "speak")
    assert lost(await respond(stub, header(output=pb.OUTPUT_AUDIO))) == [("speech", "the variant that was chosen")]
    assert of(cast, "tts") == [Outcome("tts", "b", failed=True, degraded=True), Outcome("tts", "a")]
    assert [each.first_s for each in cast.outcomes if each.stage == "tts"] == [0.0, 0.0]


async def test_a_control_that_fails_too_has_failed_itself(start: Start, cast: Cast) -> None:
    stub = await start()
    cast.portrait.before = fail(BackendFailed("no light"))
    await respond(stub, header())
    assert of(cast, "video") == [
        Outcome("video", "b", failed=True, degraded=True),
        Outcome("video", "a", failed=True, degraded=True),
    ]


async def test_what_is_lost_after_the_first_sound_is_a_failure_of_the_variant(start: Start, cast: Cast) -> None:
    stub = await start()
    gate = Gate("speak", after=1)
    gate.open()

    def fail_second(operation: str) -> None:
        gate(operation)
        if gate.came > 1:
            raise BackendFailed("hoarse")

    cast.voice.before = fail_second
    await respond(stub, header(output=pb.OUTPUT_AUDIO))
    assert of(cast, "tts") == [Outcome("tts", "b", failed=True, degraded=True)]


async def test_a_voter_that_fails_is_counted(start: Start, cast: Cast) -> None:
    stub = await start()
    cast.text.before = fail(BackendFailed("confused"))
    await respond(stub, header(output=pb.OUTPUT_AUDIO))
    assert of(cast, "mllm-text") == [Outcome("mllm-text", "default", failed=True)]
    assert of(cast, "mllm-lead") == [Outcome("mllm-lead", "default")]


async def test_a_turn_that_names_its_variants_counts_for_none(start: Start, cast: Cast) -> None:
    stub = await start()
    assert [event async for event in stub.Respond(iter([header()]), metadata=[("e3rg-variant", "tts=a")])]
    assert cast.outcomes == []


async def test_a_turn_that_its_caller_cancels_counts_for_none(start: Start, cast: Cast, calls: CallLog) -> None:
    stub = await start()
    cast.voice.before = gate = Gate("speak")
    call = stub.Respond(iter([header()]), timeout=100)
    await gate.reached()
    call.cancel()
    await calls.ended("Respond")
    gate.open()
    assert cast.outcomes == []


async def test_a_turn_that_runs_out_of_time_is_a_failure_of_who_had_not_ended(start: Start, cast: Cast) -> None:
    cast.turn_deadline_s = 3.0
    stub = await start()
    cast.lead.before = gate = Gate("write")
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        await respond(stub, header(output=pb.OUTPUT_AUDIO))
    gate.open()
    assert of(cast, "writer") == [Outcome("writer", "b", failed=True)]


async def test_a_full_queue_is_a_loss_and_no_failure(start: Start, cast: Cast) -> None:
    stub = await start()
    cast.voice.before = once(Overloaded("4 wait", 5.0), "speak")
    await respond(stub, header(output=pb.OUTPUT_AUDIO))
    assert of(cast, "tts") == [Outcome("tts", "b", degraded=True)]
