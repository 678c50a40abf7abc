"""The memory behind its gRPC services: in this process or in one of its own, and the requests that tests send it."""

import asyncio
import hashlib
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
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from numpy.typing import NDArray

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import (
    erasure_pb2_grpc,
    exemplars_pb2_grpc,
    identities_pb2,
    identities_pb2_grpc,
    memory_pb2,
    memory_pb2_grpc,
    turns_pb2_grpc,
)
from services.common import clients, server
from services.memory.domain import NewIdentity
from services.memory.embedding import Embedder
from services.memory.memory import Memory
from services.memory.schema import DIMENSIONS
from services.memory.servicer import SERVICES, Servicer
from services.memory.settings import MemorySettings
from services.memory.upkeep import Upkeep
from tests.fakes import PATIENCE_S
from tests.serving import loopback

if TYPE_CHECKING:  # The generated types have it, the generated code has not.
    from e3rg.memory.v1.erasure_pb2_grpc import ErasureServiceAsyncStub
    from e3rg.memory.v1.exemplars_pb2_grpc import ExemplarServiceAsyncStub
    from e3rg.memory.v1.identities_pb2_grpc import IdentityServiceAsyncStub
    from e3rg.memory.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from e3rg.memory.v1.turns_pb2_grpc import TurnServiceAsyncStub

ROOT = Path(__file__).parents[2]
MIB = 2**20
TENANT = "acme"
USES = ("animate_face", "clone_voice", "infer_emotion", "keep_turns")
PORTRAIT = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10_000  # 2.4 MiB: three messages
VOICE = b"RIFF\x00\x00\x00\x00WAVE" + b"voice" * 1000
FILM = b"\x00\x00\x00\x18ftypisom" + b"film" * 1000
WAV = b"RIFF\x00\x00\x00\x00WAVE" + b"speech" * 20
MP4 = b"\x00\x00\x00\x18ftypisom" + b"video" * 20
KINDS = {
    PORTRAIT: identities_pb2.REFERENCE_KIND_PORTRAIT,
    VOICE: identities_pb2.REFERENCE_KIND_VOICE,
    FILM: identities_pb2.REFERENCE_KIND_FILM,
}


class WordEmbedder:
    """Texts are as near as they share words; "nowhere" has no direction."""

    model = "words"
    digest = "f" * 64

    def __init__(self) -> None:
        self.read: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += texts
        return np.stack([np.sum([_place(word) for word in text.lower().split()], axis=0) for text in texts])


class OtherEmbedder(WordEmbedder):
    """Another model: its vectors are no use beside those of the first."""

    digest = "e" * 64

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return super().embed([text[::-1] for text in texts])


def _place(word: str) -> NDArray[np.float32]:
    if word == "nowhere":
        return np.zeros(DIMENSIONS, np.float32)
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=DIMENSIONS).astype(np.float32)


class Clock:
    """A clock that is set by hand, in seconds."""

    def __init__(self, now_s: float = 1_800_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True)
class Stubs:
    """A channel to a memory, and its services. `inside` and `upkeep` are set when it runs in this process."""

    channel: grpc.aio.Channel
    inside: Memory | None = None
    upkeep: Upkeep | None = None

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

    @property
    def turns(self) -> "TurnServiceAsyncStub":
        return cast("TurnServiceAsyncStub", turns_pb2_grpc.TurnServiceStub(self.channel))

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

    async def put_clip(
        self, kind: memory_pb2.ClipKind, content: bytes, turn_id: str = "turn-1", **where: str
    ) -> memory_pb2.Clip:
        """Keeps a clip of a turn."""
        place = {"tenant": TENANT, "identity": "ada", "conversation": "talk", **where}
        header = memory_pb2.PutClipHeader(turn=turn_id, kind=kind, size_bytes=len(content), **place)
        parts = [memory_pb2.PutClipRequest(header=header)]
        parts += [memory_pb2.PutClipRequest(content=piece) for piece in pieces(content)]
        return (await clients.ask(self.memory.PutClip(), each(parts))).clip


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
        models={"tts": "embedded 0123"},
        variants={"tts": "default"},
        votes=[memory_pb2.TurnVote(voter="text", label="sad", weight=1, latency_s=0.5)],
        delivery=memory_pb2.TurnDelivery(
            decided_by="policy empathic", intensity=0.5, voice_style="sad", face_class="sad"
        ),
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


@asynccontextmanager
async def serving(
    settings: MemorySettings,
    embedder: Embedder | None = None,
    ready: Sequence[NewIdentity] = (),
    clock: Clock | None = None,
    is_opened: bool = True,
    **upkeep_options: Any,
) -> AsyncIterator[Stubs]:
    """Serves a memory in this process, opened unless told otherwise; its upkeep runs when a test says so."""
    clocked = {"clock": clock} if clock else {}
    memory = Memory(settings, embedder or WordEmbedder(), ready, **clocked)
    upkeep = Upkeep(settings, memory, **upkeep_options)
    try:
        if is_opened:
            await upkeep.open_once()
        async with (
            server.running(SERVICES, "memory", loopback(shutdown_grace_s=1)) as running,
            # As a user's own: it tries nothing again.
            grpc.aio.insecure_channel(f"127.0.0.1:{running.port}") as channel,
        ):
            running.serve(Servicer(memory, upkeep.check_open).register)
            yield Stubs(channel, memory, upkeep)
    finally:
        await memory.close()


class Log:
    """Standard error of a process."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._news = asyncio.Event()
        self._is_whole = False

    @property
    def text(self) -> str:
        return "".join(self.lines)

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Gathers lines until the stream ends."""
        async for line in stream:
            self.lines.append(line.decode())
            self._news.set()
        self._is_whole = True
        self._news.set()

    async def line(self, text: str) -> str:
        """Waits for a line that contains a text, and returns the first."""
        async with asyncio.timeout(3 * PATIENCE_S):
            while not (found := [line for line in self.lines if text in line]):
                assert not self._is_whole, f"the process ended: {self.text[-4000:]}"
                self._news.clear()
                await self._news.wait()
        return found[0]


@asynccontextmanager
async def process_of(
    variables: Mapping[str, str], root: Path = ROOT, log: Log | None = None
) -> AsyncIterator[tuple[Stubs, asyncio.subprocess.Process]]:
    """The service in a process of its own, once it listens; then it is told to stop, which it must do in peace."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.memory"),
        stderr=asyncio.subprocess.PIPE,
        env=_environment(variables, root),
        cwd=root,
        limit=2**20,
    )
    assert process.stderr
    log = log or Log()
    reading = asyncio.create_task(log.read(process.stderr))  # Its log must not fill the pipe.
    try:
        listening = re.search(r'"port": (\d+)', await log.line('"port": '))
        assert listening
        async with grpc.aio.insecure_channel(f"127.0.0.1:{int(listening[1])}") as channel:
            yield Stubs(channel), process
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0, log.text[-4000:]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await reading


@dataclass(frozen=True)
class Ended:
    """A program that has ended."""

    status: int
    out: str
    err: str


async def program(variables: Mapping[str, str], *arguments: str) -> Ended:
    """Runs the service or one of its commands until it ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.memory", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(variables, ROOT),
        cwd=ROOT,
    )
    try:
        async with asyncio.timeout(6 * PATIENCE_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


def _environment(variables: Mapping[str, str], root: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "protos" / "gen")]),
        "E3RG_MEMORY_HOST": "127.0.0.1",
        "E3RG_MEMORY_PORT": "0",
        "E3RG_MEMORY_METRICS_PORT": "0",
        "E3RG_MEMORY_MODELS_DIR": str(ROOT / ".models"),
        **variables,
    }


async def green(stubs: Stubs) -> None:
    """Returns when the service is ready."""
    watch = health_pb2_grpc.HealthStub(stubs.channel).Watch(health_pb2.HealthCheckRequest(service=server.READINESS))
    async with asyncio.timeout(3 * PATIENCE_S):
        async for light in watch:
            if light.status == health_pb2.HealthCheckResponse.SERVING:
                break
    watch.cancel()
