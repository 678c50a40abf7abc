# ruff: noqa: N802 - the contract names the methods
"""The memory's services in dictionaries, on the wire."""

import asyncio
import hashlib
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import (
    erasure_pb2,
    erasure_pb2_grpc,
    exemplars_pb2,
    exemplars_pb2_grpc,
    identities_pb2,
    identities_pb2_grpc,
    memory_pb2_grpc,
    turns_pb2_grpc,
)
from e3rg.memory.v1 import memory_pb2 as pb
from emotions import Wheel
from services.common.errors import AlreadyExists, FailedPrecondition, InvalidRequest, NotFound
from services.common.media import chunks
from tests.fakes import go_on
from tests.serving import Served, serving

File = tuple[identities_pb2.ReferenceKind, bytes]
NAME = re.compile(r"[A-Za-z0-9-]{1,63}")


class FakeMemory(
    identities_pb2_grpc.IdentityServiceServicer,
    memory_pb2_grpc.MemoryServiceServicer,
    exemplars_pb2_grpc.ExemplarServiceServicer,
    erasure_pb2_grpc.ErasureServiceServicer,
    turns_pb2_grpc.TurnServiceServicer,
):
    """Keeps what it is told. Two texts are as like each other as the share of the words that they have in common.

    `before(method)` is called first, on a thread of its own; it may raise, or be a `Gate`.
    """

    def __init__(self) -> None:
        self.identities: dict[tuple[str, str], identities_pb2.Identity] = {}
        self.files: dict[tuple[str, str, str], bytes] = {}
        self.derived: dict[tuple[str, str, tuple[str, ...], str], bytes] = {}
        self.turns: dict[tuple[str, str, str], list[pb.Turn]] = defaultdict(list)
        """By tenant, identity and person; somebody without a name is "(conversation)"."""
        self.risk_age_s = 10.0
        self.risks: list[pb.RaiseRiskRequest] = []
        self.clips: dict[tuple[str, pb.ClipKind], bytes] = {}
        """By turn and kind."""
        self.exemplars: list[exemplars_pb2.Exemplar] = []
        self.remembered: list[pb.RememberRequest] = []
        self.sought: list[pb.SearchRequest] = []
        self.stale_s = 0.0
        self.problem = ""
        """Of its store."""
        wheel = emotions.load()
        self.bank = identities_pb2.EmotionBank(
            name="default",
            face_classes=wheel.classes,
            voice_styles=sorted({wheel.label(one).style for one in wheel.labels}),
        )
        self.ontology_hash = wheel.digest
        self.before: Callable[[str], None] = go_on
        self._additions = 0

    def add(
        self,
        tenant: str,
        name: str,
        profile: common.Profile,
        uses: tuple[str, ...],
        files: Iterable[File],
    ) -> identities_pb2.Identity:
        """Puts an identity into it."""
        self._additions += 1
        grants = [identities_pb2.Grant(use=use, granted_by="the test", granted_on="2026-01-31") for use in uses]
        identity = identities_pb2.Identity(
            id=name, profile=profile, grants=grants, version=1, generation=f"{self._additions:032x}"
        )
        self.identities[tenant, name] = identity
        self._put(tenant, identity, files)
        return identity

    def erase(self, tenant: str, name: str) -> None:
        """Erases an identity."""
        self._found(tenant, name)
        del self.identities[tenant, name]
        mine = (tenant, name)
        self.files = {key: content for key, content in self.files.items() if key[:2] != mine}
        self.derived = {key: content for key, content in self.derived.items() if key[:2] != mine}
        for key in [key for key in self.turns if key[:2] == mine]:
            del self.turns[key]

    # IdentityService

    async def AddIdentity(
        self, request_iterator: AsyncIterator[identities_pb2.AddIdentityRequest], context: Any
    ) -> identities_pb2.AddIdentityResponse:
        parts = aiter(request_iterator)
        header = (await anext(parts)).header
        await self._begin("AddIdentity")
        content = b"".join([part.content async for part in parts])
        if (header.tenant, header.id) in self.identities:
            raise AlreadyExists(f"identity {header.id!r} exists; choose another id")
        files = list(_cut(header.references, content))  # nothing is kept of what is cut short
        added = self.add(header.tenant, header.id, header.profile, tuple(grant.use for grant in header.grants), files)
        return identities_pb2.AddIdentityResponse(identity=added)

    async def ChangeIdentity(
        self, request_iterator: AsyncIterator[identities_pb2.ChangeIdentityRequest], context: Any
    ) -> identities_pb2.ChangeIdentityResponse:
        parts = aiter(request_iterator)
        header = (await anext(parts)).header
        await self._begin("ChangeIdentity")
        content = b"".join([part.content async for part in parts])
        identity = self._found(header.tenant, header.id)
        self._put(header.tenant, identity, list(_cut(header.added, content)))
        identity.version += 1
        if header.HasField("profile"):
            identity.profile.CopyFrom(header.profile)
        return identities_pb2.ChangeIdentityResponse(identity=identity)

    async def GetIdentity(
        self, request: identities_pb2.GetIdentityRequest, context: Any
    ) -> identities_pb2.GetIdentityResponse:
        await self._begin("GetIdentity")
        return identities_pb2.GetIdentityResponse(identity=self._found(request.tenant, request.identity))

    async def ListIdentities(
        self, request: identities_pb2.ListIdentitiesRequest, context: Any
    ) -> identities_pb2.ListIdentitiesResponse:
        await self._begin("ListIdentities")
        mine = [identity for (tenant, _), identity in sorted(self.identities.items()) if tenant == request.tenant]
        return identities_pb2.ListIdentitiesResponse(identities=mine)

    async def GetReference(
        self, request: identities_pb2.GetReferenceRequest, context: Any
    ) -> AsyncIterator[identities_pb2.GetReferenceResponse]:
        await self._begin("GetReference")
        self._found(request.tenant, request.identity)
        for piece in chunks(self.files[request.tenant, request.identity, request.digest]):
            yield identities_pb2.GetReferenceResponse(content=piece)

    async def GetDerived(
        self, request: identities_pb2.GetDerivedRequest, context: Any
    ) -> AsyncIterator[identities_pb2.GetDerivedResponse]:
        await self._begin("GetDerived")
        key = (request.tenant, request.identity, tuple(request.reference_digests), request.model_digest)
        if key not in self.derived:
            raise NotFound("nothing was derived")
        for piece in chunks(self.derived[key]):
            yield identities_pb2.GetDerivedResponse(content=piece)

    async def PutDerived(
        self, request_iterator: AsyncIterator[identities_pb2.PutDerivedRequest], context: Any
    ) -> identities_pb2.PutDerivedResponse:
        parts = aiter(request_iterator)
        header = (await anext(parts)).header
        await self._begin("PutDerived")
        content = b"".join([part.content async for part in parts])
        assert len(content) == header.size_bytes
        key = (header.tenant, header.identity, tuple(header.reference_digests), header.model_digest)
        self.derived[key] = content
        return identities_pb2.PutDerivedResponse()

    # MemoryService

    async def GetStore(self, request: pb.GetStoreRequest, context: Any) -> pb.GetStoreResponse:
        await self._begin("GetStore")
        card = common.ModelCard(backend="fake", ontology_hash=self.ontology_hash)
        return pb.GetStoreResponse(card=card, problem=self.problem)

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        await self._begin("Recall")
        for field, name in (("tenant", request.tenant), ("identity", request.identity)):
            _check_name(field, name)
        for field, name in (("conversation", request.conversation), ("person", request.person)):
            if name:
                _check_name(field, name)
        identity = self._found(request.tenant, request.identity)
        if lacking := set(request.uses) - {grant.use for grant in identity.grants}:
            raise FailedPrecondition(f"identity {identity.id!r} lacks {' and '.join(sorted(lacking))}; have it allowed")
        said = [turn for turn in self._turns(request) if turn.conversation == request.conversation]
        variants: dict[str, str] = {}
        for turn in said:
            variants |= turn.variants
        return pb.RecallResponse(
            variants=variants,
            identity=identity,
            emotion_bank=self.bank,
            turns=said[-request.turns_max :] if request.turns_max else [],
            ontology_hash=self.ontology_hash,
            stale_s=self.stale_s,
            risks=[
                common.EarlierRisk(kind=risk.kind, severity=risk.severity, age_s=self.risk_age_s)
                for risk in reversed(self.risks)
                if (risk.person, risk.conversation) == (request.person, request.conversation)
            ],
        )

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        self.sought.append(request)
        await self._begin("Search")
        today = time.strftime("%Y-%m-%d", time.gmtime())
        grants = self._found(request.tenant, request.identity).grants
        is_kept = any(grant.use == "keep_turns" and (grant.until or today) >= today for grant in grants)
        said = self._turns(request) if request.hits_max and is_kept else []
        here = [turn.id for turn in said if turn.conversation == request.here]
        hits = []
        for turn in said:
            ago = len(here) - here.index(turn.id) if turn.id in here else 0
            similarity = _likeness(turn.user_text, request.text)
            if similarity >= request.similarity_min and turn.id not in request.without:
                hits.append(pb.Hit(turn=turn, similarity=similarity, turns_ago=ago))
        hits.sort(key=lambda hit: -hit.similarity)
        examples = self._examples(request)[: request.examples_max]
        return pb.SearchResponse(hits=hits[: request.hits_max], examples=examples, model_digest="e" * 64)

    async def Remember(self, request: pb.RememberRequest, context: Any) -> pb.RememberResponse:
        self.remembered.append(request)
        await self._begin("Remember")
        identity = self._found(request.tenant, request.identity)
        if "keep_turns" not in {grant.use for grant in identity.grants}:
            raise FailedPrecondition(f"identity {identity.id!r} lacks keep_turns; have it allowed")
        said = self._turns(request)
        if request.turn.id not in {turn.id for turn in said}:
            kept = pb.Turn()
            kept.CopyFrom(request.turn)
            kept.conversation, kept.said_at_s = request.conversation, time.time()
            said.append(kept)
        return pb.RememberResponse()

    async def ListTurns(self, request: pb.ListTurnsRequest, context: Any) -> pb.ListTurnsResponse:
        await self._begin("ListTurns")
        return pb.ListTurnsResponse(turns=reversed(self._turns(request)))

    async def PutClip(self, request_iterator: AsyncIterator[pb.PutClipRequest], context: Any) -> pb.PutClipResponse:
        parts = aiter(request_iterator)
        header = (await anext(parts)).header
        await self._begin("PutClip")
        content = b"".join([part.content async for part in parts])
        assert len(content) == header.size_bytes
        assert header.turn in {turn.id for turn in self._turns(header)}
        self.clips[header.turn, header.kind] = content
        digest = hashlib.sha256(content).hexdigest()
        return pb.PutClipResponse(clip=pb.Clip(kind=header.kind, digest=digest, size_bytes=len(content)))

    async def PutTimings(self, request: pb.PutTimingsRequest, context: Any) -> pb.PutTimingsResponse:
        await self._begin("PutTimings")
        (turn,) = (turn for turn in self._turns(request) if turn.id == request.turn)
        turn.timings_s.clear()
        turn.timings_s.update(request.timings_s)
        turn.models.update(request.models)
        turn.variants.update(request.variants)
        return pb.PutTimingsResponse()

    async def RaiseRisk(self, request: pb.RaiseRiskRequest, context: Any) -> pb.RaiseRiskResponse:
        await self._begin("RaiseRisk")
        self._found(request.tenant, request.identity)
        self.risks.append(request)
        return pb.RaiseRiskResponse()

    async def GetClip(self, request: pb.GetClipRequest, context: Any) -> AsyncIterator[pb.GetClipResponse]:
        await self._begin("GetClip")
        for piece in chunks(self.clips[request.turn, request.kind]):
            yield pb.GetClipResponse(content=piece)

    # ExemplarService and ErasureService

    async def SearchExemplars(
        self, request: exemplars_pb2.SearchExemplarsRequest, context: Any
    ) -> exemplars_pb2.SearchExemplarsResponse:
        await self._begin("SearchExemplars")
        return exemplars_pb2.SearchExemplarsResponse(hits=self._examples(request)[: request.hits_max])

    async def EraseIdentity(
        self, request: erasure_pb2.EraseIdentityRequest, context: Any
    ) -> erasure_pb2.EraseIdentityResponse:
        await self._begin("EraseIdentity")
        self.erase(request.tenant, request.identity)
        audit = erasure_pb2.Audit(id="1", what=f"identity {request.identity}", asked_by=request.asked_by)
        return erasure_pb2.EraseIdentityResponse(audit=audit)

    def _examples(
        self, request: pb.SearchRequest | exemplars_pb2.SearchExemplarsRequest
    ) -> list[exemplars_pb2.ExemplarHit]:
        hits = [
            exemplars_pb2.ExemplarHit(exemplar=one, similarity=_likeness(one.user_text, request.text))
            for one in self.exemplars
        ]
        return [hit for hit in hits if hit.similarity >= request.similarity_min]

    async def _begin(self, method: str) -> None:
        await asyncio.to_thread(self.before, method)

    def _found(self, tenant: str, name: str) -> identities_pb2.Identity:
        if (tenant, name) not in self.identities:
            raise NotFound(f"identity {name!r} is unknown")
        return self.identities[tenant, name]

    def _put(
        self,
        tenant: str,
        identity: identities_pb2.Identity,
        files: Iterable[File],
    ) -> None:
        for kind, content in files:
            digest = hashlib.sha256(content).hexdigest()
            identity.references.add(digest=digest, size_bytes=len(content), kind=kind)
            self.files[tenant, identity.id, digest] = content

    def _turns(
        self,
        request: pb.RecallRequest
        | pb.SearchRequest
        | pb.RememberRequest
        | pb.ListTurnsRequest
        | pb.PutClipHeader
        | pb.PutTimingsRequest,
    ) -> list[pb.Turn]:
        conversation = request.here if isinstance(request, pb.SearchRequest) else request.conversation
        return self.turns[request.tenant, request.identity, request.person or f"({conversation})"]


def _cut(declared: Iterable[identities_pb2.NewReference], content: bytes) -> Iterator[File]:
    start = 0
    for file in declared:
        yield file.kind, content[start : start + file.size_bytes]
        start += file.size_bytes
    if start != len(content):
        raise InvalidRequest("content", f"{len(content)} of {start} bytes came")


def _check_name(field: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidRequest(field, f"{name!r} is not a name")


def _likeness(one: str, other: str) -> float:
    words, others = (set(re.findall(r"\w+", text.lower())) for text in (one, other))
    return len(words & others) / len(words | others)


@asynccontextmanager
async def serving_memory(memory: FakeMemory, wheel: Wheel) -> AsyncIterator[Served]:
    """Serves the fake; `wheel` is the one it is told to use."""
    memory.ontology_hash = wheel.digest

    def register(server: grpc.aio.Server) -> None:
        identities_pb2_grpc.add_IdentityServiceServicer_to_server(memory, server)
        memory_pb2_grpc.add_MemoryServiceServicer_to_server(memory, server)
        exemplars_pb2_grpc.add_ExemplarServiceServicer_to_server(memory, server)
        erasure_pb2_grpc.add_ErasureServiceServicer_to_server(memory, server)
        turns_pb2_grpc.add_TurnServiceServicer_to_server(memory, server)

    async with serving("e3rg.memory.v1.MemoryService", register) as served:
        yield served
