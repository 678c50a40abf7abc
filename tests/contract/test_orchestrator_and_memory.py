"""Turns over the real memory: what is kept through the door is found, read and erased through it."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2 as erasure
from e3rg.memory.v1 import exemplars_pb2 as exemplars
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.memory.v1 import turns_pb2 as turns_pb
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from services.memory.schema import clips, derived_data, turns
from tests.deployment import ALL_USES
from tests.door import TALK, TENANT, Door, opened
from tests.fakes import Gate
from tests.serving import refused
from tests.support.memory import grants as grants_of
from tests.support.memory import joined
from tests.turns import header, lost, respond

DOG = "My dog is ill."
NAMED: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "user": "bob", "conversation": "talk"}
PER_VARIANT: dict[str, Any] = {
    "filter": turns_pb.TurnFilter(stage="writer"),
    "group": turns_pb.TURN_GROUP_VARIANT,
}


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as door:
        yield door


async def allow(door: Door, *uses: str) -> None:
    """Allows these uses of the identity, and no others."""
    grants = identities.ChangeIdentityHeader.Grants(grants=grants_of(uses))
    await door.memory.change(identities.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=1, grants=grants))


async def test_what_was_said_two_turns_earlier_is_given_to_the_writer(door: Door) -> None:
    await door.say(DOG)
    await door.say("Thank you.")
    turn = await door.say("My dog is better.")
    (hit,) = turn.recalled[0].hits
    assert (hit.turn.user_text, hit.turns_ago, turn.degraded) == (DOG, 2, [])
    assert [given.text for given in door.cast.lead.orders[-1].memories] == [DOG]
    elsewhere = await door.say("My dog is better.", conversation="elsewhere")
    assert {hit.turns_ago for hit in elsewhere.recalled[0].hits} == {0}
    assert (await door.say("My dog is better.", person="eve", conversation="other")).recalled == []


async def test_a_whole_turn_is_kept_with_its_record_and_its_clips(door: Door) -> None:
    turn = await respond(door.stub, header(**TALK, keep_clips=True))
    assert turn.degraded == []
    (kept,) = (await door.memory.memory.ListTurns(memory.ListTurnsRequest(**TALK))).turns
    assert kept.id == turn.done.turn
    assert understanding.UnderstandResponse.FromString(kept.vote_record) == turn.understood
    assert (kept.models["tts"], kept.variants["tts"]) == ("fake 555555555555", "default")
    assert [(vote.voter, vote.label) for vote in kept.votes] == [("text", "sad"), ("face", "sad"), ("lead", "sad")]
    assert (kept.delivery.decided_by, kept.delivery.voice_style, kept.delivery.face_class) == (
        "policy empathic",
        turn.delivery.voice_style,
        turn.delivery.face_class,
    )
    assert kept.delivery.face_class
    stages = {stage: timing.end_s - timing.start_s for stage, timing in turn.timings.items()}
    assert kept.timings_s == pytest.approx(stages | {"first_sound": turn.timings["speech"].first_s})
    assert {"speech", "video", "remember", "keep_clips"} <= kept.timings_s.keys()
    assert [clip.kind for clip in kept.clips] == [memory.CLIP_KIND_SPEECH, memory.CLIP_KIND_VIDEO]
    request = memory.GetClipRequest(**TALK, turn=turn.done.turn, kind=memory.CLIP_KIND_VIDEO)
    film = b"".join([part.content async for part in door.memory.memory.GetClip(request)])
    assert film == b"".join(chunk.content for chunk in turn.video)


async def test_voice_and_face_are_fitted_once_for_all_turns(door: Door) -> None:
    for _ in range(2):
        assert (await respond(door.stub, header(**TALK))).degraded == []
    assert sorted(row["kind"] for row in await door.rows(derived_data)) == ["portrait", "voice"]
    assert (len(door.cast.voice.prepared), len(door.cast.portrait.prepared)) == (1, 1)


async def test_questions_across_conversations_get_at_the_gateway_what_the_memory_answers(door: Door) -> None:
    first = await door.say(DOG)
    await door.say("Thank you.", conversation="walk")
    rating = turns_pb.Rating(rater="eve", expressiveness=5, consistency=4, naturalness=3)
    await door.memory.turns.RateTurn(turns_pb.RateTurnRequest(**NAMED, turn=first.done.turn, rating=rating))
    for stubs in (door.memory, door.beside):
        users = (await stubs.turns.ListUsers(turns_pb.ListUsersRequest(tenant=TENANT))).users
        assert [(user.name, user.conversations, user.turns) for user in users] == [("bob", 2, 2)]
        talks = (await stubs.turns.ListConversations(turns_pb.ListConversationsRequest(tenant=TENANT))).conversations
        assert [talk.name for talk in talks] == ["walk", "talk"]
        counts = (await stubs.turns.CountTurns(turns_pb.CountTurnsRequest(tenant=TENANT, **PER_VARIANT))).counts
        assert [(count.name, count.turns) for count in counts] == [("default", 2)]
        found = (await stubs.turns.QueryTurns(turns_pb.QueryTurnsRequest(tenant=TENANT))).turns
        assert [record.turn.user_text for record in found] == ["Thank you.", DOG]
        assert [(each.rater, each.expressiveness) for each in found[1].ratings] == [("eve", 5)]


async def test_a_research_export_at_the_gateway_has_what_was_allowed(door: Door) -> None:
    await door.say(DOG)
    request = turns_pb.ExportTurnsRequest(tenant=TENANT, filter=turns_pb.TurnFilter(identity="ada"))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "research_export"):
        assert [part async for part in door.memory.turns.ExportTurns(request)]
    await allow(door, *ALL_USES, "research_export")
    content = await joined(door.memory.turns.ExportTurns(request))
    (row,) = csv.DictReader(io.StringIO(content.decode()))
    assert DOG in row.values()
    assert "bob" not in content.decode()
    assert content == await joined(door.beside.turns.ExportTurns(request))


async def test_of_a_tenant_that_is_erased_at_the_gateway_nothing_is_left(door: Door) -> None:
    await respond(door.stub, header(**TALK, keep_clips=True))
    request = erasure.EraseTenantRequest(tenant=TENANT, asked_by="the test")
    audit = (await door.memory.erasure.EraseTenant(request)).audit
    assert (audit.what, audit.asked_by) == (f"tenant {TENANT}", "the test")
    assert list((await door.beside.erasure.ListAudits(erasure.ListAuditsRequest(tenant=TENANT))).audits) == [audit]
    assert (await door.rows(turns), await door.rows(clips), door.objects) == ([], [], {})
    with refused(grpc.StatusCode.NOT_FOUND, "'ada' is unknown"):
        await door.say("Hello.")


async def test_a_write_that_is_made_again_with_its_idempotency_key_is_made_once(door: Door) -> None:
    parts = [
        identities.ImportIdentityRequest(header=identities.ImportIdentityHeader(tenant=TENANT, identity="eve")),
        identities.ImportIdentityRequest(content=await door.exported()),
    ]

    async def imported(key: str) -> identities.Identity:
        call = door.memory.identities.ImportIdentity(iter(parts), timeout=20, metadata=(("idempotency-key", key),))
        return (await call).identity

    assert await imported("a-key") == await imported("a-key")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "eve"):
        await imported("another-key")


async def test_with_an_idempotency_key_a_turn_keeps_both_clips_and_all_that_was_derived(door: Door) -> None:
    call = door.stub.Respond(
        iter([header(**TALK, keep_clips=True)]), timeout=20, metadata=(("idempotency-key", "a-key"),)
    )
    assert [event.WhichOneof("event") async for event in call][-1] == "done"
    assert sorted(row["kind"] for row in await door.rows(clips)) == ["speech", "video"]
    assert sorted(row["kind"] for row in await door.rows(derived_data)) == ["portrait", "voice"]


async def test_examples_of_answers_are_found(door: Door) -> None:
    example = exemplars.Exemplar(user_text="My dog ran away.", user_emotion="sad", reply_text="What is it called?")
    await door.memory.exemplars.PutExemplars(
        exemplars.PutExemplarsRequest(tenant=TENANT, identity="ada", exemplars=[example])
    )
    await door.say("My dog ran off.")
    (given,) = door.cast.lead.orders[-1].examples
    assert given.reply_text == "What is it called?"


async def test_of_an_identity_that_is_erased_nothing_is_left(door: Door) -> None:
    await respond(door.stub, header(**TALK, keep_clips=True))
    request = erasure.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
    audit = (await door.memory.erasure.EraseIdentity(request)).audit
    assert {count.kind: count.objects for count in audit.counts}["clips"] == 2
    assert (await door.rows(turns), await door.rows(clips), door.objects) == ([], [], {})
    with refused(grpc.StatusCode.NOT_FOUND, "'ada' is unknown"):
        await door.say("Hello.")


@pytest.mark.parametrize("who", ["identity", "person"])
async def test_a_turn_under_way_is_not_kept_with_whoever_comes_after_an_erasure(door: Door, who: str) -> None:
    await door.say(DOG)
    door.cast.lead.before = gate = Gate("write")
    fields = {**TALK, "keep_clips": True}
    answering = asyncio.create_task(respond(door.stub, header("My dog is better.", **fields)))
    await gate.reached()
    if who == "identity":
        await door.memory.erasure.EraseIdentity(
            erasure.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
        )
        await door.added()
    else:
        await door.memory.erasure.ErasePerson(
            erasure.ErasePersonRequest(tenant=TENANT, person="bob", asked_by="the test")
        )
    gate.open()
    turn = await answering
    assert [stage for stage, _ in lost(turn)] == ["remember"]
    assert "was erased" in turn.degraded[0].reason
    assert (turn.done.turn, turn.frames) == ("", 25)
    assert (await door.rows(turns), await door.rows(clips)) == ([], [])
    assert not [path for path in door.folder.rglob("*") if path.is_file() and b"My dog is" in path.read_bytes()]


async def test_a_first_turn_is_not_kept_with_another_identity_of_that_id(door: Door) -> None:
    door.cast.lead.before = gate = Gate("write")
    answering = asyncio.create_task(door.say(DOG))  # by somebody whom nobody knew when it began
    await gate.reached()
    await door.memory.erasure.EraseIdentity(
        erasure.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
    )
    await door.added()
    gate.open()
    turn = await answering
    assert [stage for stage, _ in lost(turn)] == ["remember"]
    assert "identity 'ada' was erased since it was recalled" in turn.degraded[0].reason
    assert await door.rows(turns) == []


async def test_without_the_permission_to_keep_turns_those_that_were_kept_are_not_recalled(door: Door) -> None:
    await door.say(DOG)
    await allow(door, *(use for use in ALL_USES if use != "keep_turns"))
    turn = await door.say("My dog is better.")
    assert (list(turn.identity.turns), turn.identity.trajectory.label, turn.recalled) == ([], "", [])
    assert door.cast.lead.orders[-1].memories == ()
    assert door.cast.lead.orders[-1].message.history == ()


async def test_a_database_that_goes_away_in_mid_flight_costs_the_memory_of_the_turn_only(door: Door) -> None:
    await door.say(DOG)
    await door.say("Thank you.")  # for which the first was recalled: as much is known
    await door.take_away()
    turn = await respond(door.stub, header("My dog is better.", **TALK, output=pb.OUTPUT_TEXT), timeout_s=2.5)
    assert [stage for stage, _ in lost(turn)] == ["recall", "remember"]
    assert turn.identity.stale_s > 0
    assert [said.user_text for said in turn.identity.turns] == [DOG]
    assert turn.done.turn == ""
    services = (await door.stub.GetStatus(pb.GetStatusRequest())).services
    assert ["database" in service.problem for service in services if service.name == "memory"] == [True]
