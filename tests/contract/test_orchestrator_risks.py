"""Promises of `orchestrator.proto` for turns that raise a risk."""

import asyncio
import base64
import json
from typing import TYPE_CHECKING

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from orchestrator.webhook import Webhook
from services.common.errors import BackendFailed
from services.understanding.risk.domain import Kind, Severity
from tests.deployment import Cast
from tests.fakes import fail
from tests.serving import refused
from tests.support.waiting import until as until_true
from tests.support.webhook import Receiver
from tests.turns import REPLY, Start, away, header, lost, respond, until

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

DYING = "I have the rope ready."
SECRET = f"whsec_{base64.b64encode(b'k' * 24).decode()}"


@pytest.fixture
def cast(cast: Cast) -> Cast:
    cast.risk_reader.found = {DYING: (Kind.SUICIDE, Severity.HIGH), "I feel so low.": (Kind.SUICIDE, Severity.LOW)}
    return cast


async def test_a_risk_is_told_before_anything_else_of_the_message(stub: "Stub") -> None:
    turn = await respond(stub, header(DYING, conversation="monday", output=pb.OUTPUT_TEXT))
    event = next(event.risk_raised for event in turn.events if event.HasField("risk_raised"))
    assert turn.kinds.index("risk_raised") < turn.kinds.index("understood")
    assert (event.risk.kind, event.risk.severity) == (common.RISK_KIND_SUICIDE, common.RISK_SEVERITY_HIGH)
    assert (event.conversation, len(event.id)) == ("monday", 32)
    assert "risk_raised" not in (await respond(stub, header(output=pb.OUTPUT_TEXT))).kinds


@pytest.mark.parametrize("text", [DYING, "I feel so low."])
async def test_a_risk_is_answered_with_care_and_calmly_whatever_the_caller_wishes(
    stub: "Stub", cast: Cast, text: str
) -> None:
    turn = await respond(stub, header(text, reply_emotion="excited", policy="mirror"))
    assert (turn.delivery.decided_by, turn.delivery.face_class) == ("risk", "sad")
    assert turn.delivery.voice_style not in ("cheerful", "excited")
    assert turn.done.record.degraded == "risk"
    assert (cast.lead.orders, turn.done.text != REPLY) == ([], True)


async def test_the_next_messages_heed_a_risk_of_the_conversation(stub: "Stub", cast: Cast) -> None:
    await respond(stub, header(DYING, conversation="monday", output=pb.OUTPUT_TEXT))
    (kept,) = cast.memory.risks
    assert (kept.kind, kept.severity) == (common.RISK_KIND_SUICIDE, common.RISK_SEVERITY_HIGH)
    turn = await respond(stub, header("The sun is out.", conversation="monday", output=pb.OUTPUT_TEXT))
    assert turn.understood.risk.source == common.RISK_SOURCE_EARLIER
    assert turn.done.record.degraded == "risk"
    assert len(cast.memory.risks) == 1
    done = await respond(stub, header("I did it.", conversation="monday", output=pb.OUTPUT_TEXT))
    assert done.understood.risk_is_new
    other = await respond(stub, header("The sun is out.", conversation="tuesday", output=pb.OUTPUT_TEXT))
    assert other.done.text == REPLY


async def test_a_fading_risk_leaves_the_words_to_the_writer_and_keeps_voice_and_face_calm(
    stub: "Stub", cast: Cast
) -> None:
    await respond(stub, header(DYING, conversation="monday", output=pb.OUTPUT_TEXT))
    cast.memory.risk_age_s = 1200
    turn = await respond(stub, header("The sun is out.", conversation="monday", reply_emotion="excited"))
    assert (turn.done.text, turn.delivery.decided_by) == (REPLY, "risk")


async def test_a_turn_that_stands_alone_keeps_no_risk(stub: "Stub", cast: Cast) -> None:
    turn = await respond(stub, header(DYING, output=pb.OUTPUT_TEXT))
    assert "risk_raised" in turn.kinds
    assert cast.memory.risks == []


async def test_a_risk_that_cannot_be_kept_is_told_and_the_turn_goes_on(start: Start, cast: Cast) -> None:
    cast.memory.before = away("RaiseRisk")
    turn = await respond(await start(), header(DYING, conversation="monday", output=pb.OUTPUT_TEXT))
    assert ("remember", "the memory of the risk") in lost(turn)
    assert turn.done.record.degraded == "risk"


async def test_who_hangs_up_is_in_no_less_danger(stub: "Stub", cast: Cast) -> None:
    call = stub.Respond(iter([header(DYING, conversation="monday")]), timeout=20)
    await until(call, "risk_raised")
    call.cancel()
    await until_true(lambda: bool(cast.memory.risks))


async def test_a_message_with_a_risk_is_answered_also_when_no_voter_is_there(start: Start, cast: Cast) -> None:
    for voter in cast.voters.values():
        voter.before = fail(BackendFailed("out of paper"))
    turn = await respond(await start(), header(DYING, conversation="monday"))
    assert turn.done.record.degraded == "risk"
    assert ("vote", "the vote") in lost(turn)
    assert turn.audio_s > 0


async def test_the_record_of_a_turn_holds_its_risk(stub: "Stub", cast: Cast) -> None:
    await respond(stub, header(DYING, conversation="monday", output=pb.OUTPUT_TEXT))
    (kept,) = (turn for said in cast.memory.turns.values() for turn in said)
    record = understanding.UnderstandResponse.FromString(kept.vote_record)
    assert record.risk.severity == common.RISK_SEVERITY_HIGH


async def test_the_operator_is_told(start: Start, cast: Cast) -> None:
    with Receiver(refusals=1).running() as receiver:
        cast.webhook = Webhook(receiver.url, SECRET, words=False, pauses_s=(0.0,))
        turn = await respond(await start(), header(DYING, conversation="monday", output=pb.OUTPUT_TEXT))
        assert await asyncio.to_thread(receiver.came.wait, 20)
    told = json.loads(receiver.got[-1][1])["data"]
    event = next(event.risk_raised for event in turn.events if event.HasField("risk_raised"))
    assert (told["id"], told["kind"], told["severity"]) == (event.id, "suicide", "high")
    assert (told["conversation"], told["identity"]) == ("monday", "ada")


async def test_a_country_that_is_no_code_is_refused(stub: "Stub") -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "header.country: 'Germany'; send a code of ISO 3166-1 like 'DE'"):
        await respond(stub, header(country="Germany", output=pb.OUTPUT_TEXT))
