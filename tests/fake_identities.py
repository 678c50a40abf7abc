# ruff: noqa: N802  # the proto names the methods
"""The identities behind the fake door."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from e3rg.memory.v1 import identities_pb2 as pb
from e3rg.memory.v1 import identities_pb2_grpc as pb_grpc
from services.common.errors import AlreadyExists, Conflict, FailedPrecondition, InvalidRequest, NotFound
from tests.fake_pages import digest_of, page_of

if TYPE_CHECKING:
    from tests.fake_door import FakeDoor

CHANGED_AT_S = 1_795_000_000.0
MAY_SHOW = "animate_face"
ARCHIVE_END = bytes(1024)
"""Of every tar file."""


class FakeIdentities(pb_grpc.IdentityServiceServicer):
    def __init__(self, door: "FakeDoor") -> None:
        self.door = door

    async def AddIdentity(self, request_iterator: Any, context: Any) -> pb.AddIdentityResponse:
        header, content = await self.door.upload(request_iterator)
        if (header.tenant, header.id) in self.door.identities:
            raise AlreadyExists(f"identity {header.id!r} exists; choose another id or change it")
        identity = pb.Identity(
            id=header.id,
            profile=header.profile,
            references=self.door.keep_files(header.references, content),
            grants=header.grants,
            emotion_bank=header.emotion_bank,
            version=1,
            changed_at_s=CHANGED_AT_S,
        )
        self.door.identities[header.tenant, header.id] = [identity]
        return pb.AddIdentityResponse(identity=identity)

    async def ChangeIdentity(self, request_iterator: Any, context: Any) -> pb.ChangeIdentityResponse:
        header, content = await self.door.upload(request_iterator)
        versions = self.door.versions(header.tenant, header.id)
        if header.if_version != versions[-1].version:
            raise Conflict(f"identity {header.id!r} is at version {versions[-1].version}; read it again")
        identity = pb.Identity()
        identity.CopyFrom(versions[-1])
        if header.HasField("profile"):
            identity.profile.CopyFrom(header.profile)
        if header.HasField("grants"):
            del identity.grants[:]
            identity.grants.extend(header.grants.grants)
        if header.HasField("emotion_bank"):
            identity.emotion_bank = header.emotion_bank
        stay = [file for file in identity.references if file.digest not in header.removed]
        del identity.references[:]
        identity.references.extend(stay + self.door.keep_files(header.added, content))
        if identity == versions[-1]:
            return pb.ChangeIdentityResponse(identity=identity)
        identity.version += 1
        versions.append(identity)
        return pb.ChangeIdentityResponse(identity=identity)

    async def GetIdentity(self, request: pb.GetIdentityRequest, context: Any) -> pb.GetIdentityResponse:
        self.door.requests.append(request)
        for identity in reversed(self.door.versions(request.tenant, request.identity)):
            if request.version in (0, identity.version):
                return pb.GetIdentityResponse(identity=identity)
        raise NotFound(f"version {request.version} of identity {request.identity!r} is unknown")

    async def ListIdentities(self, request: pb.ListIdentitiesRequest, context: Any) -> pb.ListIdentitiesResponse:
        known = sorted({*self.door.identities, *self.door.damaged})
        own, token = page_of([name for name in known if name[0] == request.tenant], request.page_token)
        return pb.ListIdentitiesResponse(
            identities=[self.door.identities[name][-1] for name in own if name not in self.door.damaged],
            next_page_token=token,
            damaged=[
                pb.DamagedIdentity(id=name[1], problem=self.door.damaged[name])
                for name in own
                if name in self.door.damaged
            ],
        )

    async def GetReference(
        self, request: pb.GetReferenceRequest, context: Any
    ) -> AsyncIterator[pb.GetReferenceResponse]:
        identity = self.door.versions(request.tenant, request.identity)[-1]
        if all(grant.use != MAY_SHOW for grant in identity.grants):
            raise FailedPrecondition(f"identity {request.identity!r} does not allow {MAY_SHOW}")
        yield pb.GetReferenceResponse(content=self.door.files[request.digest])

    async def PutEmotionBank(self, request: pb.PutEmotionBankRequest, context: Any) -> pb.PutEmotionBankResponse:
        self.door.banks[request.tenant, request.bank.name] = request.bank
        return pb.PutEmotionBankResponse()

    async def PutEmotionReference(self, request_iterator: Any, context: Any) -> pb.PutEmotionReferenceResponse:
        header, content = await self.door.upload(request_iterator)
        assert len(content) == header.size_bytes
        reference = pb.EmotionReference(
            generator=header.generator,
            name=header.name,
            digest=digest_of(content),
            size_bytes=header.size_bytes,
            media_type=header.media_type,
            own=bool(header.identity),
        )
        self.door.references[header.tenant, header.identity, header.generator, header.name] = (reference, content)
        return pb.PutEmotionReferenceResponse(reference=reference)

    async def GetEmotionReference(
        self, request: pb.GetEmotionReferenceRequest, context: Any
    ) -> AsyncIterator[pb.GetEmotionReferenceResponse]:
        key = (request.tenant, request.identity, request.generator, request.name)
        if key not in self.door.references:
            raise NotFound(f"there is no emotional reference {request.name!r}")
        reference, content = self.door.references[key]
        yield pb.GetEmotionReferenceResponse(reference=reference, content=content[:1])
        yield pb.GetEmotionReferenceResponse(content=content[1:])

    async def ListEmotionReferences(
        self, request: pb.ListEmotionReferencesRequest, context: Any
    ) -> pb.ListEmotionReferencesResponse:
        own = [reference for key, (reference, _) in sorted(self.door.references.items()) if key[1] == request.identity]
        return pb.ListEmotionReferencesResponse(references=own)

    async def RemoveEmotionReference(
        self, request: pb.RemoveEmotionReferenceRequest, context: Any
    ) -> pb.RemoveEmotionReferenceResponse:
        del self.door.references[request.tenant, request.identity, request.generator, request.name]
        return pb.RemoveEmotionReferenceResponse()

    async def ExportIdentity(
        self, request: pb.ExportIdentityRequest, context: Any
    ) -> AsyncIterator[pb.ExportIdentityResponse]:
        self.door.versions(request.tenant, request.identity)
        for content in self.door.archive_parts:
            yield pb.ExportIdentityResponse(content=content)
        if self.door.archive_error:
            raise self.door.archive_error

    async def ImportIdentity(self, request_iterator: Any, context: Any) -> pb.ImportIdentityResponse:
        header, self.door.imported = await self.door.upload(request_iterator)
        # To a servicer, a call that was taken back looks like one that was sent to its end.
        if not self.door.imported.endswith(ARCHIVE_END):
            raise InvalidRequest("content", "the archive is not whole; send it to its end")
        identity = pb.Identity(id=header.identity or "anna", version=1)
        self.door.identities[header.tenant, identity.id] = [identity]
        return pb.ImportIdentityResponse(identity=identity)
