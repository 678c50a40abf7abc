"""Identities on the wire."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from e3rg.memory.v1 import identities_pb2 as pb
from e3rg.memory.v1 import identities_pb2_grpc
from services.common.media import chunks
from services.memory.checks import check_digest
from services.memory.domain import (
    BANK_DEFAULT,
    Change,
    EmotionBank,
    File,
    Generator,
    Grant,
    Identity,
    NewIdentity,
    Profile,
    ReferenceKind,
)
from services.memory.file_checks import DERIVED_BYTES_MAX, check_declared
from services.memory.repositories.references import EMOTION_BYTES_MAX
from services.memory.wire.convert import choice, received, sent
from services.memory.wire.desk import Desk, page_size, present
from services.memory.wire.uploads import Declared, contents_of, files_of

_GENERATOR = pb.DESCRIPTOR.enum_types_by_name["Generator"]
_KIND = pb.DESCRIPTOR.enum_types_by_name["ReferenceKind"]


class IdentityServicer(identities_pb2_grpc.IdentityServiceServicer):
    """Serves identities."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._memory = desk, desk.memory

    async def AddIdentity(self, request_iterator: AsyncIterator[Any], context: Any) -> pb.AddIdentityResponse:
        header = await self._desk.header(request_iterator)
        present(header, "profile", "header.profile")
        kinds, declared = _declared("header.references", header.references)
        check_declared("header.references", _sizes(kinds, declared), whole=True)
        with self._desk.uploads.room(declared):
            new = NewIdentity(
                id=header.id,
                profile=received(Profile, header.profile),
                grants=_grants(header.grants),
                files=_files(kinds, await files_of(request_iterator, declared)),
                emotion_bank=header.emotion_bank or BANK_DEFAULT,
            )
            added = await self._memory.identities.add(header.tenant, new)
        return pb.AddIdentityResponse(identity=_sent(added))

    async def ChangeIdentity(self, request_iterator: AsyncIterator[Any], context: Any) -> pb.ChangeIdentityResponse:
        header = await self._desk.header(request_iterator)
        kinds, declared = _declared("header.added", header.added)
        check_declared("header.added", _sizes(kinds, declared))
        with self._desk.uploads.room(declared):
            change = Change(
                if_version=header.if_version,
                profile=received(Profile, header.profile) if header.HasField("profile") else None,
                grants=_grants(header.grants.grants) if header.HasField("grants") else None,
                emotion_bank=(header.emotion_bank or BANK_DEFAULT) if header.HasField("emotion_bank") else None,
                removed=tuple(header.removed),
                added=_files(kinds, await files_of(request_iterator, declared)),
            )
            changed = await self._memory.identities.change(header.tenant, header.id, change)
        return pb.ChangeIdentityResponse(identity=_sent(changed))

    async def GetIdentity(self, request: pb.GetIdentityRequest, context: Any) -> pb.GetIdentityResponse:
        self._desk.check(request.tenant)
        found = await self._memory.identities.get(request.tenant, request.identity, request.version)
        return pb.GetIdentityResponse(identity=_sent(found))

    async def ListIdentities(self, request: pb.ListIdentitiesRequest, context: Any) -> pb.ListIdentitiesResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        found, following = await self._memory.identities.page(request.tenant, size, request.page_token)
        return pb.ListIdentitiesResponse(identities=map(_sent, found), next_page_token=following)

    async def GetReference(
        self, request: pb.GetReferenceRequest, context: Any
    ) -> AsyncIterator[pb.GetReferenceResponse]:
        self._desk.check(request.tenant)
        reading = self._memory.recaller.reference(request.tenant, request.identity, request.digest)
        async with aclosing(self._desk.sending(reading)) as parts:
            async for part in parts:
                yield pb.GetReferenceResponse(content=part)

    async def GetDerived(self, request: pb.GetDerivedRequest, context: Any) -> AsyncIterator[pb.GetDerivedResponse]:
        self._desk.check(request.tenant)
        digests = tuple(request.reference_digests)
        reading = self._memory.references.derived(request.tenant, request.identity, digests, request.model_digest)
        async with aclosing(self._desk.sending(reading)) as parts:
            async for part in parts:
                yield pb.GetDerivedResponse(content=part)

    async def PutDerived(self, request_iterator: AsyncIterator[Any], context: Any) -> pb.PutDerivedResponse:
        header = await self._desk.header(request_iterator)
        async with self._desk.file(request_iterator, header.size_bytes, DERIVED_BYTES_MAX) as content:
            await self._memory.references.keep_derived(
                header.tenant, header.identity, tuple(header.reference_digests), header.model_digest, content
            )
        return pb.PutDerivedResponse()

    async def PutEmotionBank(self, request: pb.PutEmotionBankRequest, context: Any) -> pb.PutEmotionBankResponse:
        self._desk.check(request.tenant)
        present(request, "bank", "bank")
        await self._memory.identities.put_bank(request.tenant, received(EmotionBank, request.bank))
        return pb.PutEmotionBankResponse()

    async def PutEmotionReference(
        self, request_iterator: AsyncIterator[Any], context: Any
    ) -> pb.PutEmotionReferenceResponse:
        header = await self._desk.header(request_iterator)
        generator = choice("header.generator", Generator, _GENERATOR, header.generator)
        async with self._desk.file(request_iterator, header.size_bytes, EMOTION_BYTES_MAX) as content:
            kept = await self._memory.references.put_emotion(
                header.tenant, header.identity, generator, header.name, header.media_type, content
            )
        return pb.PutEmotionReferenceResponse(reference=sent(pb.EmotionReference, kept))

    async def GetEmotionReference(
        self, request: pb.GetEmotionReferenceRequest, context: Any
    ) -> AsyncIterator[pb.GetEmotionReferenceResponse]:
        self._desk.check(request.tenant)
        generator = choice("generator", Generator, _GENERATOR, request.generator)
        reference, content = await self._memory.references.emotion(
            request.tenant, request.identity, generator, request.name
        )
        try:
            with self._desk.downloads.room([Declared("content", len(content))]):
                yield pb.GetEmotionReferenceResponse(reference=sent(pb.EmotionReference, reference))
                for chunk in chunks(content):
                    yield pb.GetEmotionReferenceResponse(content=chunk)
        finally:
            del content  # A refusal would hold it, with this frame.

    async def ListEmotionReferences(
        self, request: pb.ListEmotionReferencesRequest, context: Any
    ) -> pb.ListEmotionReferencesResponse:
        self._desk.check(request.tenant)
        found = await self._memory.references.emotions(request.tenant, request.identity)
        return pb.ListEmotionReferencesResponse(references=[sent(pb.EmotionReference, each) for each in found])

    async def RemoveEmotionReference(
        self, request: pb.RemoveEmotionReferenceRequest, context: Any
    ) -> pb.RemoveEmotionReferenceResponse:
        self._desk.check(request.tenant)
        generator = choice("generator", Generator, _GENERATOR, request.generator)
        await self._memory.references.remove_emotion(request.tenant, request.identity, generator, request.name)
        return pb.RemoveEmotionReferenceResponse()

    async def ExportIdentity(
        self, request: pb.ExportIdentityRequest, context: Any
    ) -> AsyncIterator[pb.ExportIdentityResponse]:
        self._desk.check(request.tenant)
        async with aclosing(self._memory.archive.export(request.tenant, request.identity)) as parts:
            async for part in parts:
                yield pb.ExportIdentityResponse(content=part)

    async def ImportIdentity(self, request_iterator: AsyncIterator[Any], context: Any) -> pb.ImportIdentityResponse:
        header = await self._desk.header(request_iterator)
        async with aclosing(contents_of(request_iterator)) as parts:
            imported = await self._memory.archive.import_(header.tenant, header.identity, parts)
        return pb.ImportIdentityResponse(identity=_sent(imported))


def _sent(identity: Identity) -> pb.Identity:
    return sent(pb.Identity, identity)


def _grants(grants: Iterable[pb.Grant]) -> tuple[Grant, ...]:
    return tuple(received(Grant, grant) for grant in grants)


def _declared(field: str, references: Sequence[pb.NewReference]) -> tuple[list[ReferenceKind], list[Declared]]:
    """Return kinds and sizes of the files that are to come."""
    kinds, declared = [], []
    for place, reference in enumerate(references):
        kinds.append(choice(f"{field}[{place}].kind", ReferenceKind, _KIND, reference.kind))
        if reference.digest:
            check_digest(f"{field}[{place}].digest", reference.digest)
        declared.append(Declared(f"{field}[{place}]", reference.size_bytes, reference.digest))
    return kinds, declared


def _sizes(kinds: Iterable[ReferenceKind], declared: Iterable[Declared]) -> list[tuple[ReferenceKind, int]]:
    return [(kind, file.size_bytes) for kind, file in zip(kinds, declared, strict=True)]


def _files(kinds: Iterable[ReferenceKind], contents: Iterable[bytes]) -> tuple[File, ...]:
    return tuple(File(kind, content) for kind, content in zip(kinds, contents, strict=True))
