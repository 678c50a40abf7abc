"""Identities as archives, over a real channel and both kinds of stores."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import grpc

from e3rg.memory.v1 import erasure_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from services.common import clients
from services.memory.store import Store
from tests.fakes import PATIENCE_S
from tests.memory_service import (
    FILM,
    PORTRAIT,
    TENANT,
    VOICE,
    Stubs,
    each,
    header,
    held,
    joined,
    parts,
    pieces,
    turn,
)
from tests.serving import refused


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_an_archive_of_an_identity_makes_another_one_like_it(stubs: Stubs) -> None:
    await stubs.add(parts(header(), PORTRAIT, VOICE, FILM))
    await stubs.say(1, person="bob")
    archive = await joined(stubs.identities.ExportIdentity(pb.ExportIdentityRequest(tenant=TENANT, identity="ada")))
    requests = [
        pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant="other", identity="eva")),
        pb.ImportIdentityRequest(content=b""),  # "More will come."
        *(pb.ImportIdentityRequest(content=piece) for piece in pieces(archive)),
    ]
    imported = (await clients.ask(stubs.identities.ImportIdentity(), each(requests))).identity
    assert (imported.id, imported.profile) == ("eva", header().profile)
    file = pb.GetReferenceRequest(tenant="other", identity="eva", digest=digest_of(FILM))
    assert await joined(stubs.identities.GetReference(file)) == FILM
    recalled = await stubs.recall("eva", person="bob", tenant="other")
    assert [each.user_text for each in recalled.turns] == [turn(1).user_text]
    with refused(grpc.StatusCode.ALREADY_EXISTS, "eva"):
        await clients.ask(stubs.identities.ImportIdentity(), each(requests))


async def test_what_an_identity_was_and_what_was_allowed_then_goes_with_it(stubs: Stubs) -> None:
    await stubs.add(parts(header(), PORTRAIT, VOICE))
    await stubs.change(pb.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=1, grants={}))
    again = pb.ChangeIdentityHeader.Grants(grants=header().grants)
    await stubs.change(pb.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=2, grants=again))
    archive = await joined(stubs.identities.ExportIdentity(pb.ExportIdentityRequest(tenant=TENANT, identity="ada")))
    requests = [
        pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant="other")),
        *(pb.ImportIdentityRequest(content=piece) for piece in pieces(archive)),
    ]
    imported = (await clients.ask(stubs.identities.ImportIdentity(), each(requests))).identity
    assert imported.version == 3
    for version in (1, 2, 3):
        before, after = [
            (await stubs.identities.GetIdentity(pb.GetIdentityRequest(tenant=tenant, identity="ada", version=version)))
            for tenant in (TENANT, "other")
        ]
        assert after.identity.generation == imported.generation != before.identity.generation
        after.identity.generation = before.identity.generation
        assert after == before
    copy = pb.ExportIdentityRequest(tenant="other", identity="ada")
    assert await joined(stubs.identities.ExportIdentity(copy)) == archive
    with refused(grpc.StatusCode.ABORTED, "is at version 3, not 1"):
        await stubs.change(pb.ChangeIdentityHeader(tenant="other", id="ada", if_version=1, grants={}))
    changed = await stubs.change(pb.ChangeIdentityHeader(tenant="other", id="ada", if_version=3, grants={}))
    assert (changed.version, list(changed.grants)) == (4, [])


async def test_what_is_no_archive_leaves_nothing(stubs: Stubs, store: Store) -> None:
    await stubs.add(parts(header()))
    archive = await joined(stubs.identities.ExportIdentity(pb.ExportIdentityRequest(tenant=TENANT, identity="ada")))
    before = held(store)
    for content in (b"", b"no archive" * 100, archive[: len(archive) // 2], archive.rstrip(b"\0")):
        requests = [
            pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant="other")),
            *(pb.ImportIdentityRequest(content=piece) for piece in pieces(content)),
        ]
        for broken in (requests, requests[1:], [*requests, requests[0]]):
            with refused(grpc.StatusCode.INVALID_ARGUMENT):
                await clients.ask(stubs.identities.ImportIdentity(), each(broken))
            assert held(store) == before


async def test_a_caller_that_falls_silent_in_an_import_holds_no_thread_when_it_is_gone(stubs: Stubs) -> None:
    for _ in range(5):  # More than there are threads.
        call = stubs.identities.ImportIdentity()
        await call.write(pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant=TENANT)))
        await call.write(pb.ImportIdentityRequest(content=b"\0" * 100))
        call.cancel()
    await stubs.add(parts(header()))
    request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="me")
    async with asyncio.timeout(PATIENCE_S):
        await stubs.erasure.EraseIdentity(request)


async def test_callers_who_send_their_archives_slowly_hold_up_no_erasure_and_no_export(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    stopped = asyncio.Event()

    async def slow(number: int) -> AsyncIterator[pb.ImportIdentityRequest]:
        yield pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant="other", identity=f"eva-{number}"))
        yield pb.ImportIdentityRequest(content=b"i")
        await stopped.wait()

    imports = [asyncio.create_task(clients.ask(stubs.identities.ImportIdentity(), slow(number))) for number in range(8)]
    await stubs.recall("ada")  # A later call than the imports', which have reached their threads by then.
    archive = pb.ExportIdentityRequest(tenant=TENANT, identity="ada")
    assert await joined(stubs.identities.ExportIdentity(archive, timeout=PATIENCE_S))
    erasure = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
    assert (await stubs.erasure.EraseIdentity(erasure, timeout=PATIENCE_S)).audit.what == "identity ada"
    stopped.set()
    ended = await asyncio.gather(*imports, return_exceptions=True)
    assert all("it ends too early" in str(error) for error in ended)
