"""Imports and exports that others meet, or that end in the middle: whole, or nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, turns_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from services.common import clients
from services.memory.schema import MEDIA
from tests.fakes import PATIENCE_S
from tests.serving import refused
from tests.support.archives import OTHER, TALKS, content, filled
from tests.support.identities import (
    change_of,
    digest_of,
    exported,
    get,
    imported,
    kept,
    left,
    listed,
)
from tests.support.memory import (
    FILM,
    PORTRAIT,
    TENANT,
    VOICE,
    Clock,
    Stubs,
    each,
    header,
    parts,
    pieces,
    serving,
)
from tests.support.stacks import Stack


async def test_an_import_is_seen_by_nobody_until_all_of_it_is_there(stack: Stack) -> None:
    async with serving(stack.settings(), orphan_s=-60) as stubs, serving(stack.settings()) as other:
        archive = await filled(stubs)
        reached, go_on = asyncio.Event(), asyncio.Event()
        before = await told(other)

        async def slow() -> AsyncIterator[pb.ImportIdentityRequest]:
            for request in requests_of(archive[:-1024]):
                yield request
            reached.set()
            await go_on.wait()
            yield pb.ImportIdentityRequest(content=archive[-1024:])

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(clients.ask(stubs.identities.ImportIdentity(), slow()))
            async with asyncio.timeout(PATIENCE_S):
                await reached.wait()
                while len((await kept(stubs, stack))["clips"]) < 2 * len(TALKS):
                    pass
            assert await told(other) == before
            for call in (get(other, tenant=OTHER), other.recall(tenant=OTHER), exported(other, tenant=OTHER)):
                with refused(grpc.StatusCode.NOT_FOUND, "identity 'ada' is unknown"):
                    await call
            assert stubs.upkeep
            await stubs.upkeep.sweep()  # What is under way is left alone.
            go_on.set()
        assert await content(other, tenant=OTHER) == await content(other)


async def told(stubs: Stubs) -> list[Any]:
    """Return what is told of the tenant across identities."""
    return [
        await listed(stubs, tenant=OTHER),
        await stubs.turns.ListUsers(turns_pb2.ListUsersRequest(tenant=OTHER)),
        await stubs.turns.ListConversations(turns_pb2.ListConversationsRequest(tenant=OTHER)),
        await stubs.turns.QueryTurns(turns_pb2.QueryTurnsRequest(tenant=OTHER)),
        await stubs.turns.CountTurns(
            turns_pb2.CountTurnsRequest(tenant=OTHER, group=turns_pb2.TURN_GROUP_USER_EMOTION)
        ),
    ]


async def test_a_taken_id_is_refused_and_what_is_there_stays(stack: Stack) -> None:
    async with serving(stack.settings(), orphan_s=-60) as stubs, serving(stack.settings()) as other:
        archive = await filled(stubs)
        before = await kept(stubs, stack)
        with refused(grpc.StatusCode.ALREADY_EXISTS, "identity 'ada' exists; choose another id, or erase it first"):
            await imported(stubs, archive, TENANT)
        assert await kept(stubs, stack) == before
        at_once = [imported(each, archive, name="eva") for each in (stubs, other) * 2]
        ended = await asyncio.gather(*at_once, return_exceptions=True)
        codes = [each.code() for each in ended if isinstance(each, grpc.aio.AioRpcError)]
        assert codes == [grpc.StatusCode.ALREADY_EXISTS] * 3
        (won,) = (each for each in ended if isinstance(each, pb.Identity))
        assert await get(other, "eva", tenant=OTHER) == won
        assert await content(other, "eva", OTHER) == await content(stubs)
        found = await left(stubs, stack)
        assert len(found["identities"]) == 2
        assert len(found["objects"]) == sum(len(found[table.name]) for table in MEDIA)


async def test_an_import_that_breaks_off_keeps_nothing(stack: Stack) -> None:
    async with serving(stack.settings(), orphan_s=-60) as stubs:
        archive = await filled(stubs)
        for tenant in (TENANT, OTHER):
            await stubs.erasure.EraseTenant(erasure_pb2.EraseTenantRequest(tenant=tenant, asked_by="me"))
        before = await left(stubs, stack)
        for end in [*range(0, len(archive), len(archive) // 7), len(archive) - 1, len(archive) - 1024]:
            with refused(grpc.StatusCode.INVALID_ARGUMENT, "archive: it "):
                await imported(stubs, archive[:end])

        async def broken() -> AsyncIterator[pb.ImportIdentityRequest]:
            for request in requests_of(archive[:-1024]):
                yield request
            while not (await kept(stubs, stack)).get("clips"):
                pass
            raise ConnectionError("the line is cut")

        with pytest.raises(ConnectionError):
            await clients.ask(stubs.identities.ImportIdentity(), broken())
        async with asyncio.timeout(PATIENCE_S):
            while await left(stubs, stack) != before:  # The service learns of it a little later.
                pass


async def test_an_import_into_a_tenant_that_is_erased_meanwhile_keeps_nothing(stack: Stack) -> None:
    async with serving(stack.settings(), orphan_s=-60) as stubs, serving(stack.settings()) as other:
        archive = await filled(stubs)
        erased = list[dict[str, list[str]]]()

        async def slow() -> AsyncIterator[pb.ImportIdentityRequest]:
            for request in requests_of(archive[:10_000]):
                yield request
            async with asyncio.timeout(PATIENCE_S):
                while len((await kept(stubs, stack))["reference_files"]) < 4:
                    pass
            await other.erasure.EraseTenant(erasure_pb2.EraseTenantRequest(tenant=OTHER, asked_by="me"))
            erased.append(await left(stubs, stack))
            yield pb.ImportIdentityRequest(content=archive[10_000:])

        with refused(grpc.StatusCode.ABORTED, "while it was imported"):
            await clients.ask(stubs.identities.ImportIdentity(), slow())
        assert await left(stubs, stack) == erased[0]


async def test_what_an_import_has_brought_goes_with_a_sweep_an_hour_later(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        archive = await filled(stubs)
        clock.now_s += 3601
        assert stubs.upkeep
        await stubs.upkeep.sweep()  # Ada's risks have faded.
        before = await left(stubs, stack)

        async def slow() -> AsyncIterator[pb.ImportIdentityRequest]:
            for request in requests_of(archive[:-1024]):
                yield request
            async with asyncio.timeout(PATIENCE_S):
                while len((await kept(stubs, stack))["clips"]) < 2 * len(TALKS):
                    pass
            assert stubs.upkeep
            clock.now_s += 3601
            await stubs.upkeep.sweep()
            assert await left(stubs, stack) == before
            yield pb.ImportIdentityRequest(content=archive[-1024:])

        with refused(grpc.StatusCode.ABORTED, "or that took more than an hour; import it again"):
            await clients.ask(stubs.identities.ImportIdentity(), slow())
        assert await left(stubs, stack) == before


async def test_parts_of_an_import_that_are_out_of_order_are_refused(embedded: Stack) -> None:
    head = pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant=OTHER))
    content = pb.ImportIdentityRequest(content=b"x" * 600)
    async with serving(embedded.settings()) as stubs:
        for requests, text in (
            ([], "header: missing; send it first"),
            ([content], "header: missing; send it first"),
            ([head, head], "part: header is out of order; send one header first, then content"),
            ([head, content, head], "a header of it cannot be read"),
            ([head], "archive: it ends too early"),
            ([pb.ImportIdentityRequest(header=pb.ImportIdentityHeader())], "header.tenant: '' is not a name"),
        ):
            with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
                await clients.ask(stubs.identities.ImportIdentity(), each(requests))
        assert not await left(stubs, embedded)


def requests_of(archive: bytes) -> list[pb.ImportIdentityRequest]:
    head = pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant=OTHER))
    return [head, *(pb.ImportIdentityRequest(content=piece) for piece in pieces(archive))]


@pytest.mark.parametrize("meanwhile", ["erased", "erased and added again", "changed"])
async def test_an_identity_that_goes_or_loses_a_file_while_it_is_exported_gives_no_archive(
    stack: Stack, meanwhile: str
) -> None:
    async with serving(stack.settings()) as stubs, serving(stack.settings()) as other:
        films = [FILM + bytes([number]) * 2**20 for number in range(8)]  # More than a connection takes unread.
        await stubs.add(parts(header(), PORTRAIT, VOICE, *films))
        export = stubs.identities.ExportIdentity(pb.ExportIdentityRequest(tenant=TENANT, identity="ada"))
        responses = aiter(export)
        got = [(await anext(responses)).content]
        if meanwhile == "changed":
            await other.change(change_of(1, removed=[digest_of(films[-1])]))
            assert other.upkeep
            await other.upkeep.sweep()
        else:
            request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="me")
            await other.erasure.EraseIdentity(request)
        if meanwhile == "erased and added again":
            await other.add(parts(header(), PORTRAIT, VOICE, *films))
        code = grpc.StatusCode.ABORTED if meanwhile == "changed" else grpc.StatusCode.NOT_FOUND
        with refused(code, "while it was exported"):
            got += [response.content async for response in responses]
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "archive: it ends too early"):
            await imported(stubs, b"".join(got))


async def test_a_damaged_file_ends_the_export_and_is_named(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        (key,) = (key for key in stack.objects if digest_of(VOICE) in key)
        stack_remove(stack, key)
        with refused(grpc.StatusCode.INTERNAL, f"stored object {key!r} is damaged: it is missing"):
            await exported(stubs)
        with refused(grpc.StatusCode.NOT_FOUND, "identity 'bob' is unknown"):
            await exported(stubs, "bob")


def stack_remove(stack: Stack, key: str) -> None:
    if stack.bucket:
        stack.bucket.client().remove_object(stack.bucket.name, key)
    else:
        (stack.folder / "media" / key).unlink()


async def test_callers_who_send_their_archives_slowly_hold_up_no_other_call(embedded: Stack) -> None:
    stopped = asyncio.Event()

    async def slow(number: int) -> AsyncIterator[pb.ImportIdentityRequest]:
        yield pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant=OTHER, identity=f"eva-{number}"))
        yield pb.ImportIdentityRequest(content=b"i")
        await stopped.wait()

    async with serving(embedded.settings()) as stubs, asyncio.timeout(PATIENCE_S):
        await stubs.add(parts(header()))
        imports = [
            asyncio.create_task(clients.ask(stubs.identities.ImportIdentity(), slow(number))) for number in range(12)
        ]
        await stubs.say(1)
        assert await exported(stubs)
        request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
        assert (await stubs.erasure.EraseIdentity(request)).audit.what == "identity ada"
        stopped.set()
        ended = await asyncio.gather(*imports, return_exceptions=True)
        assert all("it ends too early" in str(error) for error in ended)
