"""Identities on the wire."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from e3rg.memory.v1 import identities_pb2 as pb
from e3rg.memory.v1 import identities_pb2_grpc
from services.common.media import chunks
from services.memory.domain import BANK_DEFAULT, Change, NewIdentity
from services.memory.registry.emotion_references import BYTES_MAX as EMOTION_BYTES_MAX
from services.memory.registry.file_checks import DERIVED_BYTES_MAX, check_declared
from services.memory.wire import messages
from services.memory.wire.desk import Desk, page_size, present
from services.memory.wire.uploads import Declared, Pulling, contents_of, files_of


class IdentityServicer(identities_pb2_grpc.IdentityServiceServicer):
    """Serves the identities of a memory.

    Args:
        desk: Where calls come in.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._memory = desk.memory

    async def AddIdentity(
        self, request_iterator: AsyncIterator[pb.AddIdentityRequest], context: Any
    ) -> pb.AddIdentityResponse:
        header: pb.AddIdentityHeader = await self._desk.header(request_iterator)
        present(header, "profile", "header.profile")
        kinds, declared = messages.declared_of("header.references", header.references)
        check_declared("header.references", messages.sizes_of(kinds, declared), whole=True)
        with self._desk.uploads.room(declared):
            new = NewIdentity(
                id=header.id,
                profile=messages.profile_of(header.profile),
                grants=messages.grants_of(header.grants),
                files=messages.files_of(kinds, await files_of(request_iterator, declared)),
                emotion_bank=header.emotion_bank or BANK_DEFAULT,
            )
            added = await self._desk.store.run(lambda: self._memory.registry.add(header.tenant, new))
        return pb.AddIdentityResponse(identity=messages.sent_identity(added))

    async def ChangeIdentity(
        self, request_iterator: AsyncIterator[pb.ChangeIdentityRequest], context: Any
    ) -> pb.ChangeIdentityResponse:
        header: pb.ChangeIdentityHeader = await self._desk.header(request_iterator)
        kinds, declared = messages.declared_of("header.added", header.added)
        check_declared("header.added", messages.sizes_of(kinds, declared))
        with self._desk.uploads.room(declared):
            change = Change(
                if_version=header.if_version,
                profile=messages.profile_of(header.profile) if header.HasField("profile") else None,
                grants=messages.grants_of(header.grants.grants) if header.HasField("grants") else None,
                emotion_bank=(header.emotion_bank or BANK_DEFAULT) if header.HasField("emotion_bank") else None,
                removed=tuple(header.removed),
                added=messages.files_of(kinds, await files_of(request_iterator, declared)),
            )
            changed = await self._desk.store.run(lambda: self._memory.registry.change(header.tenant, header.id, change))
        return pb.ChangeIdentityResponse(identity=messages.sent_identity(changed))

    async def GetIdentity(self, request: pb.GetIdentityRequest, context: Any) -> pb.GetIdentityResponse:
        self._desk.check(request.tenant)
        found = await self._desk.store.run(
            lambda: self._memory.registry.identity(request.tenant, request.identity, request.version)
        )
        return pb.GetIdentityResponse(identity=messages.sent_identity(found))

    async def ListIdentities(self, request: pb.ListIdentitiesRequest, context: Any) -> pb.ListIdentitiesResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        page = await self._desk.store.run(
            lambda: self._memory.registry.identities(request.tenant, size, request.page_token)
        )
        return pb.ListIdentitiesResponse(
            identities=[messages.sent_identity(identity) for identity in page.identities],
            next_page_token=page.following,
            damaged=[pb.DamagedIdentity(id=each.id, problem=each.problem) for each in page.damaged],
        )

    async def GetReference(
        self, request: pb.GetReferenceRequest, context: Any
    ) -> AsyncIterator[pb.GetReferenceResponse]:
        self._desk.check(request.tenant)
        pieces = self._desk.sending(lambda: self._memory.reference(request.tenant, request.identity, request.digest))
        async with aclosing(pieces):
            async for piece in pieces:
                yield pb.GetReferenceResponse(content=piece)

    async def GetDerived(self, request: pb.GetDerivedRequest, context: Any) -> AsyncIterator[pb.GetDerivedResponse]:
        self._desk.check(request.tenant)
        pieces = self._desk.sending(
            lambda: self._memory.registry.derived(
                request.tenant, request.identity, tuple(request.reference_digests), request.model_digest
            )
        )
        async with aclosing(pieces):
            async for piece in pieces:
                yield pb.GetDerivedResponse(content=piece)

    async def PutDerived(
        self, request_iterator: AsyncIterator[pb.PutDerivedRequest], context: Any
    ) -> pb.PutDerivedResponse:
        header: pb.PutDerivedHeader = await self._desk.header(request_iterator)
        async with self._desk.file(request_iterator, header.size_bytes, DERIVED_BYTES_MAX) as content:
            await self._desk.store.run(
                lambda: self._memory.registry.keep_derived(
                    header.tenant, header.identity, tuple(header.reference_digests), header.model_digest, content
                )
            )
        return pb.PutDerivedResponse()

    async def PutEmotionBank(self, request: pb.PutEmotionBankRequest, context: Any) -> pb.PutEmotionBankResponse:
        self._desk.check(request.tenant)
        present(request, "bank", "bank")
        await self._desk.store.run(lambda: self._memory.banks.put(request.tenant, messages.bank_of(request.bank)))
        return pb.PutEmotionBankResponse()

    async def PutEmotionReference(
        self, request_iterator: AsyncIterator[pb.PutEmotionReferenceRequest], context: Any
    ) -> pb.PutEmotionReferenceResponse:
        header: pb.PutEmotionReferenceHeader = await self._desk.header(request_iterator)
        generator = messages.generator_of("header.generator", header.generator)
        async with self._desk.file(request_iterator, header.size_bytes, EMOTION_BYTES_MAX) as content:
            kept = await self._desk.store.run(
                lambda: self._memory.emotion_references.put(
                    header.tenant, header.identity, generator, header.name, header.media_type, content
                )
            )
        return pb.PutEmotionReferenceResponse(reference=messages.sent_emotion_reference(kept))

    async def GetEmotionReference(
        self, request: pb.GetEmotionReferenceRequest, context: Any
    ) -> AsyncIterator[pb.GetEmotionReferenceResponse]:
        self._desk.check(request.tenant)
        generator = messages.generator_of("generator", request.generator)
        reference, content = await self._desk.store.run(
            lambda: self._memory.emotion_references.get(request.tenant, request.identity, generator, request.name)
        )
        try:
            with self._desk.downloads.room([Declared("content", len(content))]):
                yield pb.GetEmotionReferenceResponse(reference=messages.sent_emotion_reference(reference))
                for piece in chunks(content):
                    yield pb.GetEmotionReferenceResponse(content=piece)
        finally:
            del content  # The refusal would hold it, with this frame.

    async def ListEmotionReferences(
        self, request: pb.ListEmotionReferencesRequest, context: Any
    ) -> pb.ListEmotionReferencesResponse:
        self._desk.check(request.tenant)
        found = await self._desk.store.run(
            lambda: self._memory.emotion_references.list(request.tenant, request.identity)
        )
        return pb.ListEmotionReferencesResponse(
            references=[messages.sent_emotion_reference(reference) for reference in found]
        )

    async def RemoveEmotionReference(
        self, request: pb.RemoveEmotionReferenceRequest, context: Any
    ) -> pb.RemoveEmotionReferenceResponse:
        self._desk.check(request.tenant)
        generator = messages.generator_of("generator", request.generator)
        await self._desk.store.run(
            lambda: self._memory.emotion_references.remove(request.tenant, request.identity, generator, request.name)
        )
        return pb.RemoveEmotionReferenceResponse()

    async def ExportIdentity(
        self, request: pb.ExportIdentityRequest, context: Any
    ) -> AsyncIterator[pb.ExportIdentityResponse]:
        self._desk.check(request.tenant)
        pieces = self._desk.writing(lambda: self._memory.archive.export(request.tenant, request.identity))
        async with aclosing(pieces):
            async for piece in pieces:
                yield pb.ExportIdentityResponse(content=piece)

    async def ImportIdentity(
        self, request_iterator: AsyncIterator[pb.ImportIdentityRequest], context: Any
    ) -> pb.ImportIdentityResponse:
        header: pb.ImportIdentityHeader = await self._desk.header(request_iterator)
        pulling = Pulling(contents_of(request_iterator))
        try:
            imported = await self._desk.imports.run(
                lambda: self._memory.archive.import_(header.tenant, header.identity, iter(pulling))
            )
        finally:
            pulling.end()
        return pb.ImportIdentityResponse(identity=messages.sent_identity(imported))
