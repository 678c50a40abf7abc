"""No archive gets through the door with a file that voice and face have not looked at."""

import asyncio
import gc
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import identities_pb2 as identities
from orchestrator.identities import HEARTBEAT_S
from services.common.errors import BackendFailed
from services.common.tar import Member, Reader
from services.memory.uploads import SILENCE_S_MAX
from tests.deployment import PORTRAIT, VOICE, Cast, deployed
from tests.door import TENANT, Door, addition, opened
from tests.fake_memory import FakeMemory
from tests.fakes import Gate, fail
from tests.samples import png
from tests.serving import CallLog, refused
from tests.support.archives import archive_of, members
from tests.support.memory import Stubs

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DOG = "My dog is ill."
FACELESS = png(colour=(0, 0, 0))
SILENT = VOICE[:44] + bytes(len(VOICE) - 44)
CHECKS = ("GetModel", "CheckPortrait", "CheckVoice")


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as door:
        await door.say(DOG)
        yield door


async def imported_there(door: Door) -> list[str]:
    listed = await door.memory.identities.ListIdentities(identities.ListIdentitiesRequest(tenant="other"))
    return [identity.id for identity in listed.identities]


@pytest.mark.parametrize("piece_bytes", [100, 1 << 20])
async def test_an_archive_goes_out_and_in_whole_or_not_at_all(door: Door, piece_bytes: int) -> None:
    archive = await door.exported()
    came = await door.imported(archive, piece_bytes=piece_bytes)
    assert (came.id, [file.size_bytes for file in came.references]) == ("ada", [len(PORTRAIT), len(VOICE)])
    turn = await door.say("My dog is better.", tenant="other", conversation="tuesday")
    assert [hit.turn.user_text for hit in turn.recalled[0].hits] == [DOG]
    for end in (len(archive) // 2, len(archive) - 1):
        with refused(INVALID, "archive: it ends too early"):
            await door.imported(archive[:end], "eve", piece_bytes)
    assert await imported_there(door) == ["ada"]


async def test_every_file_is_looked_at_once_by_its_service(door: Door, calls: CallLog) -> None:
    archive = await door.exported()
    del calls.calls[:]
    await door.imported(archive)
    asked = [call.method for call in calls.calls if call.method in CHECKS]
    assert asked == ["GetModel", "CheckPortrait", "CheckVoice"]


def with_file(old: bytes, new: bytes) -> Callable[[list[Member]], list[Member]]:
    """Puts another file in the place of one, as somebody does who knows the format."""

    def repack(listed: list[Member]) -> list[Member]:
        was, digest = hashlib.sha256(old).hexdigest(), hashlib.sha256(new).hexdigest()
        about = json.loads(listed[0].content.decode().replace(was, digest))
        for file in about["references"]:
            file["size_bytes"] = len(new) if file["digest"] == digest else file["size_bytes"]
        files = [Member(f"references/{digest}", new) if was in each.name else each for each in listed[1:]]
        return [Member("identity.json", json.dumps(about).encode()), *files]

    return repack


def about(**changes: object) -> Callable[[list[Member]], list[Member]]:
    return lambda listed: [
        Member("identity.json", json.dumps(json.loads(listed[0].content) | changes).encode()),
        *listed[1:],
    ]


def spoken(listed: list[Member]) -> list[Member]:
    return about(profile=json.loads(listed[0].content)["profile"] | {"language": "es"})(listed)


def file(**changes: object) -> dict[str, object]:
    return {"digest": "0" * 64, "size_bytes": 9, "kind": "portrait"} | changes


@pytest.mark.parametrize("piece_bytes", [1000, 1 << 20])
@pytest.mark.parametrize(
    ("repack", "text"),
    [
        (with_file(PORTRAIT, FACELESS), "archive: references/[0-9a-f]{64}: portrait: no face in it"),
        (with_file(PORTRAIT, b"GIF89a"), "archive: references/[0-9a-f]{64}: portrait: 6 bytes that are no JPEG or PNG"),
        (with_file(VOICE, SILENT), "archive: references/[0-9a-f]{64}: voice: it is silent"),
        (spoken, "archive: identity.json.profile.language: 'es' is not spoken by the voice; use one of: "),
        (lambda listed: listed[1:], "archive: its member 'references/.*' stands where identity.json is expected"),
        (lambda listed: [listed[0], *listed[3:], *listed[1:3]], "archive: its member 'people/.*' stands where refer"),
        (lambda listed: [listed[0], listed[1], *listed[3:]], "archive: its member 'people/.*' stands where refer"),
        (lambda listed: [listed[0], listed[0], *listed[1:]], "archive: its member 'identity.json': it is there twice"),
        (about(references=[]), r"archive: identity.json.references: 0 files; send 1 to 16"),
        (about(references=[file()] * 17), r"archive: identity.json.references: 17 files; send 1 to 16"),
        (about(references=[file(kind="song")]), r"archive: its member 'identity.json': references.0.kind: "),
        (about(references=[file(size_bytes=1 << 30)]), r"references\[0\].size_bytes: 1073741824; send 1 to 16777216"),
        (
            about(references=[file(size_bytes=-1)]),
            r"references.0.size_bytes: Input should be greater",
        ),
        (about(references=[file(size_bytes=1 << 64)]), r"references.0.size_bytes: Input should be less than"),
        (about(references=[file(digest="x" * 100_000)]), r"references.0.digest: String should match"),
        (about(profile={"language": "x" * 100_000}), r"profile.language: 'x{80}' is not spoken by the voice"),
        (about(more="x" * (1 << 20)), r"has 10\d+ bytes; at most 1048576 are allowed"),
        (about(profile="Ada"), "archive: its member 'identity.json': profile: "),
    ],
)
async def test_an_archive_with_a_file_that_cannot_be_used_is_refused_and_nothing_of_it_is_kept(
    door: Door, repack: Callable[[list[Member]], list[Member]], text: str, piece_bytes: int
) -> None:
    archive = archive_of(repack(members(await door.exported())))
    before = await door.kept()
    with pytest.raises(grpc.aio.AioRpcError, match=text) as failure:
        await door.imported(archive, piece_bytes=piece_bytes)
    assert failure.value.code() is INVALID
    assert await imported_there(door) == []
    await door.unchanged(before)


async def test_a_file_that_is_larger_than_it_is_said_to_be_is_refused_before_it_is_read(door: Door) -> None:
    listed = members(await door.exported())
    larger = Member(listed[1].name, listed[1].content + b"x")
    with refused(INVALID, f"has {len(PORTRAIT) + 1} bytes; at most {len(PORTRAIT)} are allowed"):
        await door.imported(archive_of([listed[0], larger])[: -len(PORTRAIT)])


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([identities.ImportIdentityRequest(content=b"x")], "header: missing; send it first"),
        ([identities.ImportIdentityRequest(header=identities.ImportIdentityHeader())] * 2, "part: header is out of"),
    ],
)
async def test_parts_that_are_out_of_order_are_refused(
    door: Door, parts: list[identities.ImportIdentityRequest], text: str
) -> None:
    with refused(INVALID, text):
        await door.memory.identities.ImportIdentity(iter(parts), timeout=20)


class AwaitingMemory(FakeMemory):
    """Waits for pieces that are empty."""

    def __init__(self) -> None:
        super().__init__()
        self.was_told_to_wait = asyncio.Event()

    async def AddIdentity(self, request_iterator: AsyncIterator[Any], context: Any) -> identities.AddIdentityResponse:  # noqa: N802
        return await super().AddIdentity(self._noted(request_iterator), context)

    async def ImportIdentity(  # noqa: N802
        self, request_iterator: AsyncIterator[Any], context: Any
    ) -> identities.ImportIdentityResponse:
        assert [part async for part in self._noted(request_iterator)]
        return identities.ImportIdentityResponse()

    async def _noted(self, parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for part in parts:
            if part.WhichOneof("part") == "content" and not part.content:
                self.was_told_to_wait.set()
            yield part


@pytest.mark.parametrize("way", ["addition", "import"])
async def test_while_voice_is_busy_the_memory_is_told_that_more_will_come(door: Door, way: str) -> None:
    memory, archive = AwaitingMemory(), await door.exported()  # type: ignore[abstract] # the rest is not asked
    acting = Cast(memory=memory, heartbeat_s=0.01)
    async with deployed(acting) as deployment:
        other = replace(door, memory=Stubs(deployment.served["orchestrator"].channel), cast=acting)
        acting.voice.before = gate = Gate("check")
        asking = asyncio.create_task(other.added() if way == "addition" else other.imported(archive))
        await memory.was_told_to_wait.wait()
        gate.open()
        await asking


async def test_a_caller_that_takes_long_for_a_file_is_not_given_up_by_the_memory(door: Door) -> None:
    memory = AwaitingMemory()  # type: ignore[abstract] # the rest is not asked
    async with deployed(Cast(memory=memory)) as deployment:
        stubs = Stubs(deployment.served["orchestrator"].channel)
        header, *files = addition()

        async def parts() -> AsyncIterator[identities.AddIdentityRequest]:
            yield header
            for file in files:
                yield identities.AddIdentityRequest(content=file.content[:9])
                await memory.was_told_to_wait.wait()
                memory.was_told_to_wait.clear()
                yield identities.AddIdentityRequest(content=file.content[9:])

        await stubs.identities.AddIdentity(parts(), timeout=10)


def test_the_memory_hears_of_a_look_before_it_loses_patience() -> None:
    assert HEARTBEAT_S <= SILENCE_S_MAX / 3


async def test_a_look_that_fails_keeps_nothing(door: Door) -> None:
    archive, before = await door.exported(), await door.kept()
    door.cast.voice.before = fail(BackendFailed("secret"))
    with refused(grpc.StatusCode.INTERNAL, "internal error"):
        await door.imported(archive)
    await door.unchanged(before)


async def test_an_archive_that_was_cut_short_is_held_no_longer(door: Door) -> None:
    archive = await door.exported()
    gc.collect()
    gc.disable()
    try:
        with suppress(grpc.aio.AioRpcError):
            await door.imported(archive[: len(archive) // 2])
        assert not any(each._held for each in gc.get_objects() if isinstance(each, Reader))
    finally:
        gc.enable()


async def test_cancelling_ends_the_look_and_keeps_nothing(door: Door, calls: CallLog) -> None:
    archive, before = await door.exported(), await door.kept()
    door.cast.voice.before = gate = Gate("check")
    parts = [
        identities.ImportIdentityRequest(header=identities.ImportIdentityHeader(tenant=TENANT, identity="eve")),
        identities.ImportIdentityRequest(content=archive),
    ]
    call = door.memory.identities.ImportIdentity(iter(parts), timeout=20)
    await gate.reached()
    call.cancel()
    assert [ended.status for ended in await calls.ended("CheckVoice")] == ["CANCELLED"]
    assert "CANCELLED" in {ended.status for ended in await calls.ended("ImportIdentity", 2)}
    gate.open()
    await door.unchanged(before)
