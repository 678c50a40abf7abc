"""Servers of one stack keep turns at the same time; none is lost, and none comes after an erasure."""

import asyncio
import random
from collections.abc import AsyncIterator

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, memory_pb2
from tests.serving import refused
from tests.support.conversations import (
    blocked,
    connection,
    counts,
    erase_identity,
    erase_tenant,
    erase_user,
    found,
    listed,
    place,
    remember,
    rows,
)
from tests.support.memory import MP4, WAV, Clock, Stubs, header, parts, serving
from tests.support.stacks import Stack

NOT_FOUND = grpc.StatusCode.NOT_FOUND


@pytest.fixture
async def servers(stack: Stack) -> AsyncIterator[tuple[Stubs, Stubs]]:
    """Two servers of one stack; `ada` is known."""
    async with serving(stack.settings()) as one, serving(stack.settings()) as other:
        await one.add(parts(header()))
        yield one, other


async def test_turns_of_two_servers_at_once_are_all_kept_and_every_reader_sees_one_order(
    servers: tuple[Stubs, Stubs],
) -> None:
    sent = [(stubs, number) for number in range(20) for stubs in servers]  # Each turn at both.
    random.Random(5).shuffle(sent)
    await asyncio.gather(*(remember(stubs, number, where={"person": "bob"}) for stubs, number in sent))
    orders = [[each.id for each in await listed(stubs, page_size=7, person="bob")] for stubs in servers]
    assert sorted(orders[0]) == sorted(f"turn-{number}" for number in range(20))
    request = memory_pb2.RecallRequest(turns_max=20, **place(person="bob"))
    for stubs in servers:
        orders.append([each.id for each in (await stubs.memory.Recall(request)).turns][::-1])
        assert sorted(await found(stubs, "question", "bob", hits_max=32)) == sorted(orders[0])
    assert orders == [orders[0]] * 4


async def test_a_turn_is_not_kept_for_another_identity_of_that_id(servers: tuple[Stubs, Stubs], stack: Stack) -> None:
    recalled = (await servers[1].recall()).identity.generation
    await erase_identity(servers[0])
    await servers[0].add(parts(header()))
    before = await rows(stack)
    with refused(NOT_FOUND, "'ada' was erased since"):
        await servers[1].memory.Remember(_request(identity_generation=recalled))
    assert await rows(stack) == before
    recalled = (await servers[1].recall()).identity.generation
    await servers[1].memory.Remember(_request(identity_generation=recalled))
    assert len(await listed(servers[0])) == 1


@pytest.mark.parametrize("came_back", [False, True])
@pytest.mark.parametrize("person", ["bob", ""])
async def test_a_turn_is_not_kept_for_a_person_who_was_erased(
    servers: tuple[Stubs, Stubs], stack: Stack, person: str, came_back: bool
) -> None:
    assert (await servers[1].recall(person=person)).person_generation == ""
    await servers[1].memory.Remember(_request(1, person))  # Who was not known yet becomes known.
    recalled = (await servers[1].recall(person=person)).person_generation
    await servers[1].memory.Remember(_request(2, person, person_generation=recalled))
    await erase_user(servers[0], person, "" if person else "talk")
    if came_back:
        await remember(servers[0], 3, where={"person": person})
    before = await rows(stack)
    with refused(NOT_FOUND, "was erased meanwhile"):
        await servers[1].memory.Remember(_request(4, person, person_generation=recalled))
    assert await rows(stack) == before
    assert (await servers[1].recall(person=person)).person_generation != recalled


@pytest.mark.parametrize("what", ["person", "identity"])
async def test_what_comes_while_something_is_erased_is_refused_or_goes_with_it(
    servers: tuple[Stubs, Stubs], stack: Stack, what: str
) -> None:
    await servers[0].add(parts(header("eve")))
    await erase_identity(servers[0])
    before, objects = await rows(stack), stack.objects
    await servers[0].add(parts(header()))
    await remember(servers[0], 0, where={"person": "bob"})
    generation = (await servers[0].recall(person="bob")).person_generation

    async def writes(stubs: Stubs, number: int) -> None:
        await stubs.memory.Remember(_request(number, "bob", person_generation=generation))
        timings = memory_pb2.PutTimingsRequest(turn=f"turn-{number}", timings_s={"vote": 1}, **place(person="bob"))
        await stubs.memory.PutTimings(timings)
        await stubs.put_clip(memory_pb2.CLIP_KIND_SPEECH, WAV, f"turn-{number}", person="bob")

    async def erases() -> None:
        await (erase_user(servers[0], "bob") if what == "person" else erase_identity(servers[0]))

    writing = [writes(stubs, number) for number in range(1, 9) for stubs in servers]
    outcomes = await asyncio.gather(*writing[:8], erases(), *writing[8:], return_exceptions=True)
    assert outcomes.pop(8) is None
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    # On a busy machine one that meets too many others is told to come again.
    allowed = {NOT_FOUND, grpc.StatusCode.UNAVAILABLE}
    assert {each.code() for each in failed if isinstance(each, grpc.aio.AioRpcError)} <= allowed, failed
    assert all(isinstance(each, grpc.aio.AioRpcError) for each in failed)
    if what == "person":
        await erase_identity(servers[0])
    assert servers[0].inside
    await servers[0].inside.erasure.drain()
    assert (await rows(stack), stack.objects) == (before, objects)


async def test_a_clip_of_a_turn_that_is_erased_while_it_arrives_is_not_kept(
    servers: tuple[Stubs, Stubs], stack: Stack
) -> None:
    objects = stack.objects
    await remember(servers[0], 1)
    call = servers[1].memory.PutClip()
    head = memory_pb2.PutClipHeader(turn="turn-1", kind=memory_pb2.CLIP_KIND_VIDEO, size_bytes=len(MP4), **place())
    await call.write(memory_pb2.PutClipRequest(header=head))
    await erase_user(servers[0], conversation="talk")
    await call.write(memory_pb2.PutClipRequest(content=MP4))
    await call.done_writing()
    with refused(NOT_FOUND, "turn 'turn-1' is unknown"):
        await call
    assert stack.objects == objects


async def test_of_two_who_replace_a_clip_at_once_one_stays(servers: tuple[Stubs, Stubs], stack: Stack) -> None:
    objects = stack.objects
    await remember(servers[0], 1)
    contents = [MP4 + bytes([number]) for number in range(8)]
    puts = [servers[at % 2].put_clip(memory_pb2.CLIP_KIND_VIDEO, content) for at, content in enumerate(contents)]
    kept = await asyncio.gather(*puts)
    (clip,) = (await listed(servers[0]))[0].clips
    assert clip in kept
    assert servers[0].inside
    await servers[0].inside.erasure.drain()
    assert len(stack.objects) == len(objects) + 1


async def test_retention_spares_a_conversation_in_which_somebody_is_just_speaking(clustered: Stack) -> None:
    assert clustered.urls
    clock = Clock()
    async with serving(clustered.settings(), clock=clock) as stubs, connection(clustered.urls.admin) as admin:
        assert stubs.inside
        await stubs.add(parts(header()))
        await remember(stubs, 1, where={"person": "bob"})
        await admin.execute("CREATE TABLE aside AS SELECT * FROM turns; DELETE FROM turns")
        clock.now_s += 86_400
        async with admin.transaction():  # As Remember does.
            await admin.execute("SELECT FROM conversations FOR UPDATE")
            expiring = asyncio.create_task(stubs.inside.retentions.expire())
            await blocked(admin)
            await admin.execute("INSERT INTO turns SELECT * FROM aside")
        await expiring
        assert [each.id for each in await listed(stubs, person="bob")] == ["turn-1"]


async def test_a_user_who_turns_to_another_identity_while_one_is_erased_stays_known(clustered: Stack) -> None:
    assert clustered.urls
    async with serving(clustered.settings()) as stubs, connection(clustered.urls.admin) as admin:
        for name in ("ada", "eve"):
            await stubs.add(parts(header(name)))
            await remember(stubs, 1, where={"person": "bob", "identity": name})
        await admin.execute("""
            CREATE TABLE aside AS SELECT * FROM conversations
                WHERE identity_id = (SELECT id FROM identities WHERE name = 'eve');
            DELETE FROM conversations WHERE id = (SELECT id FROM aside)
        """)
        async with admin.transaction():  # As Remember does.
            await admin.execute("INSERT INTO conversations SELECT * FROM aside")
            erasing = asyncio.create_task(erase_identity(stubs))
            await blocked(admin)
        await erasing
        known = await admin.fetchval("SELECT count(*) FROM users JOIN conversations ON user_id = users.id")
        assert known == 1


@pytest.mark.parametrize("what", ["user", "identity", "tenant"])
async def test_whoever_begins_to_talk_while_something_is_erased_goes_with_it_and_is_counted(
    clustered: Stack, what: str
) -> None:
    assert clustered.urls
    async with serving(clustered.settings()) as stubs, connection(clustered.urls.admin) as admin:
        await stubs.add(parts(header()))
        before = await rows(clustered)
        await remember(stubs, 1, where={"person": "bob"})
        talked = ("conversations", "turns", "turn_embeddings")
        for table in ("users", *talked):
            await admin.execute(f"CREATE TABLE {table}_aside AS SELECT * FROM {table}")
        begun = talked if what == "user" else ("users", *talked)
        await admin.execute(f"DELETE FROM {begun[0]}")
        async with admin.transaction():  # As Remember does.
            for table in begun:
                await admin.execute(f"INSERT INTO {table} SELECT * FROM {table}_aside")
            erasing = asyncio.create_task(_erase(stubs, what))
            await blocked(admin)
        audit = await erasing
        left = {"user": before, "identity": {"tenants": 1}, "tenant": {}}
        assert await rows(clustered) == left[what]
        gone = {kind: number for kind, number in counts(audit).items() if kind in ("users", "conversations", "turns")}
        assert gone == {"users": 1, "conversations": 1, "turns": 1}
        erased = await admin.fetchval("SELECT erased_ids ? (SELECT id FROM users_aside) FROM audits")
        assert erased, "a restored backup would bring the user back"


async def test_an_identity_that_is_erased_while_it_is_read_is_not_found(clustered: Stack) -> None:
    assert clustered.urls
    async with serving(clustered.settings()) as stubs, connection(clustered.urls.admin) as admin:
        await stubs.add(parts(header()))
        async with serving(clustered.settings()) as other:  # It has read nothing yet.
            async with admin.transaction():
                await admin.execute("SET LOCAL e3rg.maintenance = 'on'; LOCK TABLE identity_versions")
                recalling = asyncio.create_task(other.recall())
                await blocked(admin)
                await admin.execute("DELETE FROM identities")
            with refused(NOT_FOUND, "'ada'"):
                await recalling


async def _erase(stubs: Stubs, what: str) -> erasure_pb2.Audit:
    if what == "user":
        return await erase_user(stubs, "bob")
    return await (erase_identity(stubs) if what == "identity" else erase_tenant(stubs))


def _request(
    number: int = 1, person: str = "", identity_generation: str = "", person_generation: str = ""
) -> memory_pb2.RememberRequest:
    return memory_pb2.RememberRequest(
        turn=memory_pb2.Turn(
            id=f"turn-{number}", user_text="hello", user_emotion="sad", reply_text="hi", reply_emotion="caring"
        ),
        identity_generation=identity_generation,
        person_generation=person_generation,
        **place(person=person),
    )
