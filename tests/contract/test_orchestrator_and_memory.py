"""Turns over the real memory: what is kept through the door is found, read and erased through it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from typing import cast as typed

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2 as erasure
from e3rg.memory.v1 import exemplars_pb2 as exemplars
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from e3rg.understanding.v1 import understanding_pb2 as understanding
from emotions import Wheel
from services.common.errors import NotReady
from services.memory.servicer import register
from services.memory.wire.desk import Desk
from tests.deployment import ALL_USES, PORTRAIT, VOICE, Cast, deployed
from tests.fake_store import FakeStore
from tests.memory_service import Stubs, memory_over, queues
from tests.serving import Served, refused, serving
from tests.turns import Turn, header, lost, respond

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

TENANT, DOG = "acme", "My dog is ill."
TALK: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "person": "bob", "conversation": "talk"}


@dataclass
class Door:
    """A door over the real memory, and what that has in its store."""

    stub: "Stub"
    memory: Stubs
    store: FakeStore
    cast: Cast

    async def say(self, text: str, **fields: Any) -> Turn:
        return await respond(self.stub, header(text, **{**TALK, "output": pb.OUTPUT_TEXT, **fields}))


@asynccontextmanager
async def serving_real(store: FakeStore, wheel: Wheel) -> AsyncIterator[Served]:
    threads = queues()
    desk = Desk(memory_over(store), threads, None)
    async with serving("e3rg.memory.v1.MemoryService", lambda server: register(server, "fake", desk, wheel)) as served:
        yield served
    await asyncio.to_thread(threads.close)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    cast, store = Cast(), FakeStore()
    cast.serving_memory = lambda wheel: serving_real(store, wheel)
    async with deployed(cast) as deployment:
        channel = deployment.served["orchestrator"].channel
        stub = typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))
        door = Door(stub, Stubs(channel), store, cast)
        await door.memory.identities.AddIdentity(iter(addition()), timeout=20)
        yield door


def addition() -> list[identities.AddIdentityRequest]:
    files = ((identities.REFERENCE_KIND_PORTRAIT, PORTRAIT), (identities.REFERENCE_KIND_VOICE, VOICE))
    head = identities.AddIdentityHeader(
        tenant=TENANT,
        id="ada",
        profile=common.Profile(name="Ada", age="young", gender="female", timbre="mid", language="en"),
        grants=[identities.Grant(use=use, granted_by="the test", granted_on="2026-01-31") for use in ALL_USES],
        references=[identities.NewReference(kind=kind, size_bytes=len(content)) for kind, content in files],
    )
    parts = [identities.AddIdentityRequest(content=content) for _, content in files]
    return [identities.AddIdentityRequest(header=head), *parts]


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
    assert kept.variants["tts"] == "fake 555555555555"
    assert kept.timings_s["reply"] >= 0
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


async def test_an_archive_goes_out_and_in_whole_or_not_at_all(door: Door) -> None:
    await door.say(DOG)
    request = identities.ExportIdentityRequest(tenant=TENANT, identity="ada")
    archive = b"".join([part.content async for part in door.memory.identities.ExportIdentity(request)])

    def parts(content: bytes, name: str) -> list[identities.ImportIdentityRequest]:
        header = identities.ImportIdentityHeader(tenant="other", identity=name)
        return [identities.ImportIdentityRequest(header=header), identities.ImportIdentityRequest(content=content)]

    came = (await door.memory.identities.ImportIdentity(iter(parts(archive, "")), timeout=20)).identity
    assert (came.id, [file.size_bytes for file in came.references]) == ("ada", [len(PORTRAIT), len(VOICE)])
    turn = await door.say("My dog is better.", tenant="other", conversation="tuesday")
    assert [hit.turn.user_text for hit in turn.recalled[0].hits] == [DOG]
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await door.memory.identities.ImportIdentity(iter(parts(archive[: len(archive) // 2], "eve")), timeout=20)
    listed = await door.memory.identities.ListIdentities(identities.ListIdentitiesRequest(tenant="other"))
    assert [identity.id for identity in listed.identities] == ["ada"]


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
