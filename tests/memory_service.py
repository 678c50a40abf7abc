"""The memory behind its door: served in this process or in one of its own, and the requests that tests send it."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import (
    erasure_pb2_grpc,
    exemplars_pb2_grpc,
    identities_pb2,
    identities_pb2_grpc,
    memory_pb2,
    memory_pb2_grpc,
)
from services.common import clients, server
from services.common.inference import InferenceQueue
from services.memory.memory import Memory
from services.memory.opening import Opening
from services.memory.servicer import SERVICES, register
from services.memory.store import Store, content_of
from services.memory.wire.desk import Desk, Queues
from tests.fakes import PATIENCE_S
from tests.serving import plain_channel
from tests.talking import WordEmbedder

if TYPE_CHECKING:  # The generated types have it, the generated code has not.
    from e3rg.memory.v1.erasure_pb2_grpc import ErasureServiceAsyncStub
    from e3rg.memory.v1.exemplars_pb2_grpc import ExemplarServiceAsyncStub
    from e3rg.memory.v1.identities_pb2_grpc import IdentityServiceAsyncStub
    from e3rg.memory.v1.memory_pb2_grpc import MemoryServiceAsyncStub

ROOT = Path(__file__).parents[1]
MIB = 2**20
TENANT = "acme"
USES = ("animate_face", "clone_voice", "infer_emotion", "keep_turns")
PORTRAIT = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10_000  # 2.4 MiB: three messages
VOICE = b"RIFF\x00\x00\x00\x00WAVE" + b"voice" * 1000
FILM = b"\x00\x00\x00\x18ftypisom" + b"film" * 1000
KINDS = {
    PORTRAIT: identities_pb2.REFERENCE_KIND_PORTRAIT,
    VOICE: identities_pb2.REFERENCE_KIND_VOICE,
    FILM: identities_pb2.REFERENCE_KIND_FILM,
}


@dataclass(frozen=True)
class Stubs:
    """A channel to a memory, and its services."""

    channel: grpc.aio.Channel

    @property
    def memory(self) -> "MemoryServiceAsyncStub":
        return cast("MemoryServiceAsyncStub", memory_pb2_grpc.MemoryServiceStub(self.channel))

    @property
    def identities(self) -> "IdentityServiceAsyncStub":
        return cast("IdentityServiceAsyncStub", identities_pb2_grpc.IdentityServiceStub(self.channel))

    @property
    def erasure(self) -> "ErasureServiceAsyncStub":
        return cast("ErasureServiceAsyncStub", erasure_pb2_grpc.ErasureServiceStub(self.channel))

    @property
    def exemplars(self) -> "ExemplarServiceAsyncStub":
        return cast("ExemplarServiceAsyncStub", exemplars_pb2_grpc.ExemplarServiceStub(self.channel))

    async def add(self, requests: Sequence[identities_pb2.AddIdentityRequest]) -> identities_pb2.Identity:
        """Adds an identity."""
        call = self.identities.AddIdentity()
        return (await clients.ask(call, each(requests))).identity

    async def change(self, header: identities_pb2.ChangeIdentityHeader, *files: bytes) -> identities_pb2.Identity:
        """Changes an identity; `files` come in addition."""
        header.added.extend(new_references(files))
        parts = [identities_pb2.ChangeIdentityRequest(content=piece) for file in files for piece in pieces(file)]
        call = self.identities.ChangeIdentity()
        return (await clients.ask(call, each([identities_pb2.ChangeIdentityRequest(header=header), *parts]))).identity

    async def say(
        self, number: int, identity: str = "ada", conversation: str = "talk", person: str = "", tenant: str = TENANT
    ) -> None:
        """Keeps a turn."""
        await self.memory.Remember(
            memory_pb2.RememberRequest(
                tenant=tenant, identity=identity, conversation=conversation, person=person, turn=turn(number)
            )
        )

    async def recall(
        self,
        identity: str = "ada",
        conversation: str = "talk",
        person: str = "",
        tenant: str = TENANT,
        uses: Iterable[str] = (),
        timeout: float | None = None,
    ) -> memory_pb2.RecallResponse:
        """Recalls an identity."""
        request = memory_pb2.RecallRequest(
            tenant=tenant, identity=identity, conversation=conversation, person=person, uses=uses
        )
        return await self.memory.Recall(request, timeout=timeout)


def header(name: str = "ada", uses: Iterable[str] = USES, tenant: str = TENANT) -> identities_pb2.AddIdentityHeader:
    return identities_pb2.AddIdentityHeader(
        tenant=tenant,
        id=name,
        profile=common.Profile(
            name="Ada",
            age="young",
            gender="female",
            timbre="mid",
            language="en",
            about="Likes engines.",
            speaking_style="warm and unhurried",
        ),
        grants=grants(uses),
    )


def grants(uses: Iterable[str] = USES) -> list[identities_pb2.Grant]:
    return [
        identities_pb2.Grant(use=use, granted_by="the test", granted_on="2026-01-31", purpose="tests") for use in uses
    ]


def new_references(files: Iterable[bytes]) -> list[identities_pb2.NewReference]:
    return [identities_pb2.NewReference(kind=kind_of(file), size_bytes=len(file)) for file in files]


def kind_of(file: bytes) -> identities_pb2.ReferenceKind:
    """By how it begins; what begins otherwise is called a portrait."""
    for known, kind in KINDS.items():
        if file[4:8] == known[4:8] and file[:4] in (known[:4], b"\0\0\0\x18"):
            return kind
    return identities_pb2.REFERENCE_KIND_PORTRAIT


def pieces(content: bytes) -> Iterator[bytes]:
    return (content[at : at + MIB] for at in range(0, len(content), MIB))


def parts(
    head: identities_pb2.AddIdentityHeader, *files: bytes, pieced: Iterable[bytes] | None = None
) -> list[identities_pb2.AddIdentityRequest]:
    """The requests that add an identity; its files are a portrait and a voice if not told otherwise."""
    files = files or (PORTRAIT, VOICE)
    sized = identities_pb2.AddIdentityHeader()
    sized.CopyFrom(head)
    if not sized.references:
        sized.references.extend(new_references(files))
    sent = pieces(b"".join(files)) if pieced is None else pieced
    return [
        identities_pb2.AddIdentityRequest(header=sized),
        *(identities_pb2.AddIdentityRequest(content=piece) for piece in sent),
    ]


def turn(number: int, text: str = "") -> memory_pb2.Turn:
    return memory_pb2.Turn(
        id=f"turn-{number}",
        user_text=text or f"question {number}",
        user_emotion="sad",
        user_intensity=0.5,
        reply_text=f"answer {number}",
        reply_emotion="caring",
        vote_record=b"how the panel decided",
        variants={"tts": "embedded"},
        timings_s={"vote": 0.25},
    )


async def each(messages: Iterable[Any]) -> AsyncIterator[Any]:
    for message in messages:
        yield message


async def joined(responses: Any) -> bytes:
    """The content of a stream of responses, of which none is too large."""
    got = [response.content async for response in responses]
    assert max(map(len, got), default=0) <= MIB
    return b"".join(got)


def held(store: Store) -> dict[str, bytes | None]:
    """All that a store has."""
    return {entry.key: content_of(store.get(entry.key)) for entry in store.list("")}


def queues() -> Queues:
    names = ("fake", "words", "archives", "imports")
    return Queues(*(InferenceQueue("memory", name, waiting_max=64, workers=4) for name in names))


@asynccontextmanager
async def serving(memory: Memory, opening: Opening | None = None) -> AsyncIterator[Stubs]:
    """Serves a memory in this process."""
    threads = queues()
    desk = Desk(memory, threads, opening)
    try:
        async with (
            server.running(
                SERVICES,
                "memory",
                lambda grpc_server: register(grpc_server, "fake", desk, emotions.load()),
                host="127.0.0.1",
                port=0,
                grace_s=1,
            ) as running,
            plain_channel(f"127.0.0.1:{running.port}") as channel,
        ):
            yield Stubs(channel)
    finally:
        await asyncio.to_thread(threads.close)


def memory_over(store: Store, **options: Any) -> Memory:
    """A memory that knows texts by their words."""
    return Memory(store, WordEmbedder(), **options)


@asynccontextmanager
async def process_of(variables: Mapping[str, str]) -> AsyncIterator[tuple[Stubs, asyncio.subprocess.Process]]:
    """The service in a process of its own, once it listens; then it is told to stop, which it must do in peace."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protos" / "gen")]),
        "E3RG_MEMORY_HOST": "127.0.0.1",
        "E3RG_MEMORY_PORT": "0",
        "E3RG_MEMORY_METRICS_PORT": "0",
        "E3RG_MEMORY_MODELS_DIR": str(ROOT / ".models"),
        **variables,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.memory", stderr=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stderr
    try:
        while not (listening := re.search(rb'"port": (\d+)', line := await process.stderr.readline())):
            assert line, "the process ended before it listened"
        async with plain_channel(f"127.0.0.1:{int(listening[1])}") as channel:
            yield Stubs(channel), process
        process.send_signal(signal.SIGTERM)
        await process.stderr.read()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def green(stubs: Stubs) -> None:
    """Returns when the service is ready."""
    watch = health_pb2_grpc.HealthStub(stubs.channel).Watch(health_pb2.HealthCheckRequest(service=server.READINESS))
    async with asyncio.timeout(3 * PATIENCE_S):
        async for light in watch:
            if light.status == health_pb2.HealthCheckResponse.SERVING:
                break
    watch.cancel()
