# ruff: noqa: N802  # the proto names the methods
"""A door that serves everything over memory of its own: what the command says and is told, without a deployment."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import grpc

from e3rg.memory.v1 import (
    erasure_pb2,
    erasure_pb2_grpc,
    exemplars_pb2,
    exemplars_pb2_grpc,
    identities_pb2,
    identities_pb2_grpc,
    memory_pb2,
    memory_pb2_grpc,
    turns_pb2,
    turns_pb2_grpc,
)
from e3rg.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from services.common.errors import AlreadyExists, InvalidRequest, NotFound
from tests.fake_identities import CHANGED_AT_S, FakeIdentities
from tests.fake_pages import digest_of, page_of

Run = Callable[..., Awaitable[tuple[int, str, str]]]
"""Runs the command with some words; returns its exit status, what it printed, and what it complained of."""


class FakeDoor:
    """What is behind the door, by tenant; a test fills it and looks at it.

    Attributes:
        address: Where it is served.
        damaged: What is wrong with each identity that cannot be read.
        damaged_turns: What is wrong with each turn that cannot be read, by its id.
        requests: Every message that came; of an upload the header only.
        variants: What each turn named in the metadata `e3rg-variant`.
        asked: Set as soon as turns were asked for, which are given once `may_answer` is set.
    """

    def __init__(self) -> None:
        self.address = ""
        self.requests: list[Any] = []
        self.variants: list[str] = []
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.events: list[orchestrator_pb2.RespondResponse] = []
        self.identities: dict[tuple[str, str], list[identities_pb2.Identity]] = {}
        self.damaged: dict[tuple[str, str], str] = {}
        self.files: dict[str, bytes] = {}
        self.banks: dict[tuple[str, str], identities_pb2.EmotionBank] = {}
        self.references: dict[tuple[str, str, int, str], tuple[identities_pb2.EmotionReference, bytes]] = {}
        self.exemplars: dict[tuple[str, str], list[exemplars_pb2.Exemplar]] = {}
        self.turns: list[memory_pb2.Turn] = []
        self.damaged_turns: dict[str, str] = {}
        self.hits: list[memory_pb2.Hit] = []
        self.clip = b""
        self.ratings: dict[tuple[str, str], turns_pb2.Rating] = {}
        self.audits: list[erasure_pb2.Audit] = []
        self.done_after_s: float | None = 1.0
        self.retention = erasure_pb2.Retention()
        self.archive_parts: list[bytes] = []
        self.archive_error: Exception | None = None
        self.imported = b""

    def register(self, server: grpc.aio.Server) -> None:
        """Serves what a door serves, which is not all of the memory."""
        orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server(_Turns(self), server)  # type: ignore[abstract]
        identities_pb2_grpc.add_IdentityServiceServicer_to_server(FakeIdentities(self), server)  # type: ignore[abstract]
        exemplars_pb2_grpc.add_ExemplarServiceServicer_to_server(_Exemplars(self), server)
        erasure_pb2_grpc.add_ErasureServiceServicer_to_server(_Erasure(self), server)  # type: ignore[abstract]
        turns_pb2_grpc.add_TurnServiceServicer_to_server(_Ratings(self), server)  # type: ignore[abstract]
        memory_pb2_grpc.add_MemoryServiceServicer_to_server(_Memory(self), server)  # type: ignore[abstract]

    def versions(self, tenant: str, identity: str) -> list[identities_pb2.Identity]:
        if (tenant, identity) not in self.identities:
            raise NotFound(f"identity {identity!r} is unknown")
        return self.identities[tenant, identity]

    async def upload(self, parts: AsyncIterator[Any]) -> tuple[Any, bytes]:
        """Reads a header and what follows it; no part may be larger than a message's largest."""
        header = (await anext(aiter(parts))).header
        self.requests.append(header)
        content = [part.content async for part in parts]
        assert all(0 < len(piece) <= 1 << 20 for piece in content)
        return header, b"".join(content)

    def keep_files(
        self, announced: Iterable[identities_pb2.NewReference], content: bytes
    ) -> list[identities_pb2.Reference]:
        """Keeps the files of an upload, whose sizes and digests must be those of its header."""
        kept = []
        for new in announced:
            file, content = content[: new.size_bytes], content[new.size_bytes :]
            assert (len(file), digest_of(file)) == (new.size_bytes, new.digest)
            self.files[new.digest] = file
            kept.append(identities_pb2.Reference(digest=new.digest, size_bytes=new.size_bytes, kind=new.kind))
        assert not content
        return kept


class _Turns(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    def __init__(self, door: FakeDoor) -> None:
        self.door = door

    async def Respond(
        self, request_iterator: AsyncIterator[orchestrator_pb2.RespondRequest], context: Any
    ) -> AsyncIterator[orchestrator_pb2.RespondResponse]:
        self.door.variants += [value for key, value in context.invocation_metadata() if key == "e3rg-variant"]
        async for request in request_iterator:
            self.door.requests.append(request)
        for event in self.door.events:
            yield event


class _Ratings(turns_pb2_grpc.TurnServiceServicer):
    def __init__(self, door: FakeDoor) -> None:
        self.door = door

    async def RateTurn(self, request: turns_pb2.RateTurnRequest, context: Any) -> turns_pb2.RateTurnResponse:
        given = self.door.ratings.setdefault((request.turn, request.rating.rater), request.rating)
        if given != request.rating:
            raise AlreadyExists(f"rater {given.rater!r} has rated turn {request.turn!r} already")
        self.door.requests.append(request)
        return turns_pb2.RateTurnResponse(rating=given)


class _Exemplars(exemplars_pb2_grpc.ExemplarServiceServicer):
    def __init__(self, door: FakeDoor) -> None:
        self.door = door

    async def PutExemplars(
        self, request: exemplars_pb2.PutExemplarsRequest, context: Any
    ) -> exemplars_pb2.PutExemplarsResponse:
        self.door.requests.append(request)
        kept = self.door.exemplars.setdefault((request.tenant, request.identity), [])
        for exemplar in request.exemplars:
            exemplar.id = digest_of(exemplar.user_text.encode())[:8]
            kept.append(exemplar)
        return exemplars_pb2.PutExemplarsResponse(ids=[exemplar.id for exemplar in request.exemplars])

    async def ListExemplars(
        self, request: exemplars_pb2.ListExemplarsRequest, context: Any
    ) -> exemplars_pb2.ListExemplarsResponse:
        own = self.door.exemplars.get((request.tenant, request.identity), [])
        exemplars, token = page_of(own, request.page_token)
        return exemplars_pb2.ListExemplarsResponse(exemplars=exemplars, next_page_token=token)

    async def SearchExemplars(
        self, request: exemplars_pb2.SearchExemplarsRequest, context: Any
    ) -> exemplars_pb2.SearchExemplarsResponse:
        self.door.requests.append(request)
        own = self.door.exemplars.get((request.tenant, request.identity), [])
        hits = [exemplars_pb2.ExemplarHit(exemplar=exemplar, similarity=0.5) for exemplar in own]
        return exemplars_pb2.SearchExemplarsResponse(hits=hits)

    async def RemoveExemplars(
        self, request: exemplars_pb2.RemoveExemplarsRequest, context: Any
    ) -> exemplars_pb2.RemoveExemplarsResponse:
        own = self.door.exemplars[request.tenant, request.identity]
        there = [exemplar for exemplar in own if exemplar.id in request.ids]
        self.door.exemplars[request.tenant, request.identity] = [each for each in own if each not in there]
        return exemplars_pb2.RemoveExemplarsResponse(exemplars=len(there))


class _Memory(memory_pb2_grpc.MemoryServiceServicer):
    def __init__(self, door: FakeDoor) -> None:
        self.door = door

    async def ListTurns(self, request: memory_pb2.ListTurnsRequest, context: Any) -> memory_pb2.ListTurnsResponse:
        self.door.requests.append(request)
        self.door.asked.set()
        await self.door.may_answer.wait()
        turns, token = page_of(self.door.turns, request.page_token)
        damaged = self.door.damaged_turns
        return memory_pb2.ListTurnsResponse(
            turns=[turn for turn in turns if turn.id not in damaged],
            next_page_token=token,
            damaged=[damaged[turn.id] for turn in turns if turn.id in damaged],
        )

    async def Search(self, request: memory_pb2.SearchRequest, context: Any) -> memory_pb2.SearchResponse:
        self.door.requests.append(request)
        if not (request.person or request.conversation):
            raise InvalidRequest("conversation", "empty, and there is no person; name one of them")
        return memory_pb2.SearchResponse(hits=self.door.hits)

    async def GetClip(
        self, request: memory_pb2.GetClipRequest, context: Any
    ) -> AsyncIterator[memory_pb2.GetClipResponse]:
        self.door.requests.append(request)
        if not self.door.clip:
            raise NotFound(f"turn {request.turn!r} has no such clip")
        yield memory_pb2.GetClipResponse(content=self.door.clip)


class _Erasure(erasure_pb2_grpc.ErasureServiceServicer):
    def __init__(self, door: FakeDoor) -> None:
        self.door = door

    async def EraseIdentity(
        self, request: erasure_pb2.EraseIdentityRequest, context: Any
    ) -> erasure_pb2.EraseIdentityResponse:
        self.door.requests.append(request)
        self.door.versions(request.tenant, request.identity)
        del self.door.identities[request.tenant, request.identity]
        return erasure_pb2.EraseIdentityResponse(audit=self._audit(f"identity {request.identity}", request.asked_by))

    async def ErasePerson(
        self, request: erasure_pb2.ErasePersonRequest, context: Any
    ) -> erasure_pb2.ErasePersonResponse:
        self.door.requests.append(request)
        what = f"person {request.person}" if request.person else f"conversation {request.conversation}"
        return erasure_pb2.ErasePersonResponse(audit=self._audit(what, request.asked_by))

    async def ListAudits(self, request: erasure_pb2.ListAuditsRequest, context: Any) -> erasure_pb2.ListAuditsResponse:
        audits, token = page_of(self.door.audits, request.page_token)
        return erasure_pb2.ListAuditsResponse(audits=audits, next_page_token=token)

    async def GetRetention(
        self, request: erasure_pb2.GetRetentionRequest, context: Any
    ) -> erasure_pb2.GetRetentionResponse:
        return erasure_pb2.GetRetentionResponse(retention=self.door.retention)

    async def SetRetention(
        self, request: erasure_pb2.SetRetentionRequest, context: Any
    ) -> erasure_pb2.SetRetentionResponse:
        self.door.requests.append(request)
        self.door.retention = request.retention
        return erasure_pb2.SetRetentionResponse()

    def _audit(self, what: str, asked_by: str) -> erasure_pb2.Audit:
        audit = erasure_pb2.Audit(
            id=f"a{len(self.door.audits) + 1}",
            what=what,
            asked_by=asked_by,
            begun_at_s=CHANGED_AT_S,
            done_at_s=0 if self.door.done_after_s is None else CHANGED_AT_S + self.door.done_after_s,
            counts=[
                erasure_pb2.ErasedCount(kind="conversations", objects=1, size_bytes=0),
                erasure_pb2.ErasedCount(kind="references", objects=2, size_bytes=40_000),
            ],
            caches_gone_by_s=CHANGED_AT_S + 61,
        )
        self.door.audits.insert(0, audit)
        return audit
