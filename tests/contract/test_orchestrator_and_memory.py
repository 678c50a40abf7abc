"""Turns over the real memory: what is kept through the door is found, read and erased through it."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2 as erasure
from e3rg.memory.v1 import exemplars_pb2 as exemplars
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from services.common.errors import NotReady
from tests.deployment import ALL_USES
from tests.door import TALK, TENANT, Door, opened
from tests.fakes import Gate
from tests.serving import refused
from tests.turns import header, lost, respond

DOG = "My dog is ill."


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as door:
        yield door


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
    assert kept.models["tts"] == "fake 555555555555"
    assert kept.timings_s == pytest.approx(
        {stage: timing.end_s - timing.start_s for stage, timing in turn.timings.items()}
    )
    assert {"speech", "video", "remember", "keep_clips"} <= kept.timings_s.keys()
    assert [clip.kind for clip in kept.clips] == [memory.CLIP_KIND_SPEECH, memory.CLIP_KIND_VIDEO]
    request = memory.GetClipRequest(**TALK, turn=turn.done.turn, kind=memory.CLIP_KIND_VIDEO)
    film = b"".join([part.content async for part in door.memory.memory.GetClip(request)])
    assert film == b"".join(chunk.content for chunk in turn.video)


async def test_voice_and_face_are_fitted_once_for_all_turns(door: Door) -> None:
    for _ in range(2):
        assert (await respond(door.stub, header(**TALK))).degraded == []
    derived = [key for key in door.store.objects if "/derived/" in key]
    assert sorted(key.split("/derived/")[1].split("/")[0] for key in derived) == ["portrait", "voice"]
    assert (len(door.cast.voice.prepared), len(door.cast.portrait.prepared)) == (1, 1)


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
    assert not [key for key in door.store.objects if "/kept/" in key or "/identities/" in key]
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
    before = {key for key in door.store.objects if "/people/" in key or "/derived/" in key}
    gate.open()
    turn = await answering
    assert [stage for stage, _ in lost(turn)] == ["remember"]
    assert "was erased" in turn.degraded[0].reason
    assert (turn.done.turn, turn.frames) == ("", 25)
    assert {key for key in door.store.objects if "/people/" in key} <= before
    assert b"dog" not in b"".join(door.store.objects.values())


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
    assert not [key for key in door.store.objects if "/people/" in key]


async def test_without_the_permission_to_keep_turns_those_that_were_kept_are_not_recalled(door: Door) -> None:
    await door.say(DOG)
    grants = [
        identities.Grant(use=use, granted_by="the test", granted_on="2026-01-31")
        for use in ALL_USES
        if use != "keep_turns"
    ]
    change = identities.ChangeIdentityHeader(
        tenant=TENANT, id="ada", if_version=1, grants=identities.ChangeIdentityHeader.Grants(grants=grants)
    )
    await door.memory.identities.ChangeIdentity(iter([identities.ChangeIdentityRequest(header=change)]), timeout=20)
    turn = await door.say("My dog is better.")
    assert (list(turn.identity.turns), turn.identity.trajectory.label, turn.recalled) == ([], "", [])
    assert door.cast.lead.orders[-1].memories == ()
    assert door.cast.lead.orders[-1].message.history == ()


async def test_a_store_that_goes_away_in_mid_flight_costs_the_memory_of_the_turn_only(door: Door) -> None:
    await door.say(DOG)
    await door.say("Thank you.")  # for which the first was recalled: as much is known

    def away(operation: str, key: str) -> None:
        raise NotReady("the store is away")

    door.store.before = away
    turn = await respond(door.stub, header("My dog is better.", **TALK, output=pb.OUTPUT_TEXT), timeout_s=2.5)
    assert [stage for stage, _ in lost(turn)] == ["recall", "remember"]
    assert turn.identity.stale_s > 0
    assert [said.user_text for said in turn.identity.turns] == [DOG]
    assert turn.done.turn == ""
