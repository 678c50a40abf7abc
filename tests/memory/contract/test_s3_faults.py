"""Object storage, or the network before it, has faults: calls are right or named errors, and nothing is left over."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2
from services.common import clients
from services.common.errors import NotReady
from services.memory.consistency import Findings, check
from tests.serving import refused
from tests.support.memory import FILM, MP4, PORTRAIT, TENANT, WAV, Stubs, each, header, joined, parts, serving
from tests.support.object_store import ObjectStore
from tests.support.s3_proxy import (
    Delay,
    Fault,
    FlipBit,
    Hold,
    LoseResponses,
    Repeat,
    Respond,
    S3Proxy,
    Truncate,
    pass_through,
)
from tests.support.stacks import Stack

UNAVAILABLE, INTERNAL = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL
XML = "application/xml"
DERIVED, OTHER = b"derived" * 3000, b"derived otherwise" * 3000
SPEECHES = {"sad": WAV + b"sad" * 3000, "angry": WAV + b"angry" * 3000}
MODEL = "d" * 64


def error(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Scene:
    """A served memory behind a proxy that holds one of everything."""

    stubs: Stubs
    proxy: S3Proxy
    port: int

    @property
    def writes(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        """Each kind of write; none hinders another, or itself a second time."""
        changed = identities_pb2.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=1)
        return {
            "AddIdentity": lambda: self.stubs.add(parts(header("eve"))),
            "ChangeIdentity": lambda: self.stubs.change(changed, FILM),
            "PutDerived": lambda: self.derive(OTHER),
            "PutEmotionReference": lambda: self.put_emotion("angry"),
            "PutClip": lambda: self.stubs.put_clip(memory_pb2.CLIP_KIND_VIDEO, MP4),
        }

    @property
    def reads(self) -> dict[str, tuple[Callable[[], Awaitable[bytes]], set[bytes]]]:
        """Each kind of read, and what it may return."""
        mine = {"tenant": TENANT, "identity": "ada"}
        stubs = self.stubs
        file = identities_pb2.GetReferenceRequest(tenant=TENANT, identity="ada", digest=digest(PORTRAIT))
        derived = identities_pb2.GetDerivedRequest(
            tenant=TENANT, identity="ada", reference_digests=[digest(PORTRAIT)], model_digest=MODEL
        )
        emotion = identities_pb2.GetEmotionReferenceRequest(
            tenant=TENANT, identity="ada", generator=identities_pb2.GENERATOR_VOICE, name="sad"
        )
        clip = memory_pb2.GetClipRequest(**mine, conversation="talk", turn="turn-1", kind=memory_pb2.CLIP_KIND_SPEECH)
        return {
            "GetReference": (lambda: joined(stubs.identities.GetReference(file)), {PORTRAIT}),
            "GetDerived": (lambda: joined(stubs.identities.GetDerived(derived)), {DERIVED, OTHER}),
            "GetEmotionReference": (
                lambda: joined(stubs.identities.GetEmotionReference(emotion)),
                {SPEECHES["sad"]},
            ),
            "GetClip": (lambda: joined(stubs.memory.GetClip(clip)), {WAV}),
        }

    async def fill(self) -> None:
        await self.stubs.add(parts(header()))
        await self.derive(DERIVED)
        await self.put_emotion("sad")
        await self.stubs.say(1)
        await self.stubs.put_clip(memory_pb2.CLIP_KIND_SPEECH, WAV)

    async def derive(self, content: bytes) -> None:
        about = identities_pb2.PutDerivedHeader(
            tenant=TENANT,
            identity="ada",
            reference_digests=[digest(PORTRAIT)],
            model_digest=MODEL,
            size_bytes=len(content),
        )
        messages = [identities_pb2.PutDerivedRequest(header=about), identities_pb2.PutDerivedRequest(content=content)]
        await clients.ask(self.stubs.identities.PutDerived(), each(messages))

    async def put_emotion(self, name: str) -> None:
        content = SPEECHES[name]
        about = identities_pb2.PutEmotionReferenceHeader(
            tenant=TENANT,
            identity="ada",
            generator=identities_pb2.GENERATOR_VOICE,
            name=name,
            media_type="audio/wav",
            size_bytes=len(content),
        )
        messages = [
            identities_pb2.PutEmotionReferenceRequest(header=about),
            identities_pb2.PutEmotionReferenceRequest(content=content),
        ]
        await clients.ask(self.stubs.identities.PutEmotionReference(), each(messages))

    def disturb(self, requests: Fault = pass_through, responses: Fault = pass_through) -> None:
        self.proxy.requests, self.proxy.responses = requests, responses

    async def check(self) -> None:
        """Checks, without faults, that everything works, and that rows and objects fit each other."""
        self.disturb()
        stubs = self.stubs
        assert stubs.inside
        assert stubs.upkeep
        for read, expected in self.reads.values():
            assert await read() in expected
        findings = await check(stubs.inside, False, None)
        assert (findings.rows, findings.files) == ([], [])
        await stubs.inside.erasure.drain()
        await stubs.upkeep.delete_orphans()
        assert await check(stubs.inside, False, None) == Findings()


@contextmanager
def suppress_refusal(code: grpc.StatusCode) -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        assert error.code() == code, error.details()


@pytest.fixture
def proxy(s3: ObjectStore) -> Iterator[S3Proxy]:
    proxy = S3Proxy(s3.port)
    yield proxy
    proxy.close()


@pytest.fixture
def behind(s3: ObjectStore, tmp_path: Path) -> Stack:
    """SQLite and S3."""
    return Stack("sqlite-s3", tmp_path / "memory", bucket=s3.bucket())


@asynccontextmanager
async def scene_of(stack: Stack, proxy: S3Proxy, port: int = 0, timeout_s: float = 5) -> AsyncIterator[Scene]:
    settings = stack.settings(s3_endpoint=proxy.endpoint, s3_timeout_s=timeout_s, cache_bytes=0)
    async with serving(settings, orphan_s=0) as stubs:
        scene = Scene(stubs, proxy, port)
        await scene.fill()
        yield scene


@pytest.mark.parametrize(
    "disturb",
    [
        lambda it: it.disturb(responses=LoseResponses("")),
        lambda it: it.disturb(responses=FlipBit("GET")),
        lambda it: it.disturb(responses=Truncate("GET")),
        lambda it: it.disturb(requests=Truncate("PUT")),
        lambda it: it.disturb(responses=Respond(500, error("InternalError"), XML, times=1)),
        lambda it: it.disturb(responses=Respond(503, error("SlowDown"), XML, times=2)),
        lambda it: it.disturb(responses=Respond(502, b"<html>a proxy</html>", "text/html", times=1)),
        lambda it: it.disturb(Delay(0.02), Delay(0.02)),
        lambda it: it.disturb(requests=Repeat(it.port)),
    ],
    ids=["lost", "flipped", "cut", "cut-upload", "500", "503", "502", "slow", "repeated"],
)
async def test_what_passes_by_itself_is_not_noticed(
    behind: Stack, proxy: S3Proxy, s3: ObjectStore, disturb: Callable[[Scene], None]
) -> None:
    async with scene_of(behind, proxy, s3.port) as scene:
        for write in scene.writes.values():
            disturb(scene)
            await write()
        for read, expected in scene.reads.values():
            disturb(scene)
            assert await read() in expected
        disturb(scene)
        erase = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="eve", asked_by="the test")
        assert (await scene.stubs.erasure.EraseIdentity(erase)).audit.done_at_s
        await scene.check()
        recalled = await scene.stubs.recall()
        assert (recalled.identity.version, len(recalled.identity.references)) == (2, 3)
        with refused(grpc.StatusCode.NOT_FOUND):
            await scene.stubs.recall("eve")


@pytest.mark.parametrize(
    ("disturb", "of_writes", "of_reads"),
    [
        (
            lambda it: it.disturb(responses=LoseResponses("", 1000)),
            (UNAVAILABLE, "cannot be reached"),
            (UNAVAILABLE, "cannot be reached"),
        ),
        (
            lambda it: it.disturb(responses=Respond(500, error("InternalError"), XML)),
            (UNAVAILABLE, "the object storage at"),
            (UNAVAILABLE, "the object storage at"),
        ),
        (
            lambda it: it.disturb(responses=Respond(403, error("AccessDenied"), XML)),
            (UNAVAILABLE, "(AccessDenied): these credentials must list the bucket"),
            (UNAVAILABLE, "(AccessDenied): these credentials must list the bucket"),
        ),
        (
            lambda it: it.disturb(responses=Respond(301, error("PermanentRedirect"), XML)),
            (UNAVAILABLE, "set E3RG_MEMORY_S3_REGION"),
            (UNAVAILABLE, "set E3RG_MEMORY_S3_REGION"),
        ),
        (
            lambda it: it.disturb(responses=Respond(403, b"<html>who are you</html>", "text/html")),
            (UNAVAILABLE, "the object storage at"),
            (UNAVAILABLE, "the object storage at"),
        ),
        (
            lambda it: it.disturb(responses=Respond(507, error("XMinioStorageFull"), XML)),
            (grpc.StatusCode.RESOURCE_EXHAUSTED, "is full (XMinioStorageFull); nothing of this call is kept"),
            None,
        ),
        (lambda it: it.disturb(responses=FlipBit("GET", 1000)), None, (INTERNAL, "stored object 'tenants/acme/")),
        (lambda it: it.disturb(responses=Truncate("GET", 1000)), None, (UNAVAILABLE, "cannot be reached")),
        (
            lambda it: it.proxy.refuse(),
            (UNAVAILABLE, "cannot be reached"),
            (UNAVAILABLE, "cannot be reached"),
        ),
    ],
    ids=["lost", "500", "403", "301", "403-html", "full", "flipped", "cut", "refused"],
)
async def test_what_stays_is_an_error_with_its_reason_and_keeps_nothing(
    behind: Stack,
    proxy: S3Proxy,
    disturb: Callable[[Scene], None],
    of_writes: tuple[grpc.StatusCode, str] | None,
    of_reads: tuple[grpc.StatusCode, str] | None,
) -> None:
    async with scene_of(behind, proxy) as scene:
        disturb(scene)
        for write in scene.writes.values() if of_writes else ():
            with refused(*(of_writes or (UNAVAILABLE, ""))):
                await write()
        for read, _ in scene.reads.values() if of_reads else ():
            with refused(*(of_reads or (UNAVAILABLE, ""))):
                await read()
        scene.disturb()
        if of_reads == (UNAVAILABLE, "cannot be reached"):
            told = (await scene.stubs.memory.GetStore(memory_pb2.GetStoreRequest())).problem
            assert "cannot be reached" in told
            proxy.refuse()
            proxy.accept()
        await scene.check()
        assert (await scene.stubs.memory.GetStore(memory_pb2.GetStoreRequest())).problem == ""
        assert (await scene.stubs.recall()).identity.version == 1
        for write in scene.writes.values():
            await write()
        await scene.check()


async def test_an_upload_that_is_damaged_on_its_way_is_refused_or_never_read(behind: Stack, proxy: S3Proxy) -> None:
    async with scene_of(behind, proxy) as scene:
        scene.disturb(requests=FlipBit("PUT", 1000))
        for write in scene.writes.values():
            with suppress_refusal(UNAVAILABLE):
                await write()
        scene.disturb()
        for read, expected in scene.reads.values():
            with suppress_refusal(INTERNAL):
                assert await read() in expected


async def test_a_storage_that_hangs_is_left_after_its_timeout_and_works_when_it_is_back(
    behind: Stack, proxy: S3Proxy
) -> None:
    async with scene_of(behind, proxy, timeout_s=0.2) as scene:
        scene.disturb(responses=(hold := Hold()))
        for write in scene.writes.values():
            with refused(UNAVAILABLE, "cannot be reached"):
                await write()
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
            await scene.stubs.memory.GetClip(
                memory_pb2.GetClipRequest(
                    tenant=TENANT,
                    identity="ada",
                    conversation="talk",
                    turn="turn-1",
                    kind=memory_pb2.CLIP_KIND_SPEECH,
                ),
                timeout=0.05,
            ).read()
        # What needs no object is answered meanwhile.
        assert (await scene.stubs.recall()).stale_s == 0
        await scene.stubs.say(2)
        hold.release()
        await scene.check()


async def test_an_erasure_while_the_storage_is_away_is_finished_when_it_is_back(behind: Stack, proxy: S3Proxy) -> None:
    async with scene_of(behind, proxy) as scene:
        proxy.refuse()
        request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
        audit = (await scene.stubs.erasure.EraseIdentity(request)).audit
        assert audit.done_at_s == 0
        with refused(grpc.StatusCode.NOT_FOUND):
            await scene.stubs.recall()
        assert behind.objects
        proxy.accept()
        assert scene.stubs.upkeep
        await scene.stubs.upkeep.sweep()
        (audit,) = (await scene.stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=TENANT))).audits
        assert audit.done_at_s > 0
        assert behind.objects == []


@pytest.mark.parametrize(
    ("fault", "is_over"),
    [
        (lambda: Respond(200, b"<ListBucketResult><Contents>", XML), False),
        (lambda: Respond(200, b"<ListBucketResult><Contents>", XML, times=1), True),
        (lambda: Truncate("GET", 1000), False),
        (lambda: Truncate("GET"), True),
    ],
    ids=["no-xml", "no-xml-once", "cut", "cut-once"],
)
async def test_a_listing_that_cannot_be_read_is_no_empty_one(
    behind: Stack, proxy: S3Proxy, fault: Callable[[], Fault], is_over: bool
) -> None:
    async with scene_of(behind, proxy) as scene:
        assert scene.stubs.inside
        scene.disturb(responses=fault())
        if is_over:
            assert await check(scene.stubs.inside, True, None) == Findings(is_repaired=True)
        else:
            with pytest.raises(NotReady, match="the object storage at"):
                await check(scene.stubs.inside, True, None)
        await scene.check()
