"""A turn that its caller or a deadline ends stops all its stages, through all services with fake models."""

from typing import TYPE_CHECKING

import grpc

from tests.deployment import Cast
from tests.fakes import Gate
from tests.serving import CallLog, refused
from tests.turns import Start, header, respond

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub


async def test_cancelling_a_turn_stops_every_stage_that_works(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.lead.sentences = tuple(f"Sentence {number}." for number in range(50))
    cast.lead.before = writing = Gate("write", after=2)
    cast.voice.before = speaking = Gate("speak", after=1)
    cast.portrait.before = drawing = Gate("feed", after=1)
    call = stub.Respond(iter([header()]), timeout=100)  # not the deadline stops them
    for gate in (writing, speaking, drawing):
        await gate.reached()
    call.cancel()
    for method, times in (("Respond", 1), ("WriteReply", 2), ("Speak", 1), ("Animate", 1)):
        assert {ended.status for ended in await calls.ended(method, times)} == {"CANCELLED"}, method
    for gate in (writing, speaking, drawing):
        gate.open()
    for fake in (cast.lead, cast.voice, cast.portrait):
        await fake.stopped.happened()
    assert (writing.came, speaking.came) == (3, 2)  # what was being made, and nothing after it
    cast.lead.sentences = ("All is well.",)
    assert (await respond(stub, header())).done.text == "All is well."  # every model is free again


async def test_cancelling_stops_the_vote_too(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.face.before = gate = Gate("predict")
    call = stub.Respond(iter([header()]), timeout=100)
    await gate.reached()
    call.cancel()
    assert [ended.status for ended in await calls.ended("Understand")] == ["CANCELLED"]
    assert "CANCELLED" in {ended.status for ended in await calls.ended("PredictEmotion", times=3)}
    gate.open()
    assert cast.lead.orders == []


async def test_a_turn_that_takes_too_long_is_given_up_and_its_stages_stop(
    start: Start, cast: Cast, calls: CallLog
) -> None:
    cast.turn_deadline_s = 0.5
    stub = await start()
    cast.lead.before = gate = Gate("write", after=1)
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "the turn took longer than 0.5 s; at most 0.5 s may be allowed"):
        await respond(stub, header())
    for method, times in (("WriteReply", 2), ("Speak", 1), ("Animate", 1)):
        assert await calls.ended(method, times)
    gate.open()
    await cast.lead.stopped.happened()
    assert gate.came == 2


async def test_a_turn_gets_what_its_caller_allows_and_the_default_of_one_who_sets_no_deadline(
    start: Start, cast: Cast
) -> None:
    cast.turn_deadline_s, cast.turn_deadline_max_s = 0.5, 60.0
    stub = await start()
    assert (await respond(stub, header(), timeout_s=20)).done.text
    cast.lead.before = gate = Gate("write", after=1)
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "the turn took longer than 0.5 s; at most 60 s may be allowed"):
        [event async for event in stub.Respond(iter([header()]))]
    gate.open()


async def test_the_callers_deadline_ends_the_turn(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.lead.before = gate = Gate("write")
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        await respond(stub, header(), timeout_s=0.5)
    await calls.ended("WriteReply", times=2)
    gate.open()
    await cast.lead.stopped.happened()
