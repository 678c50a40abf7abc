from e3rg.common.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReferenceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFERENCE_KIND_UNSPECIFIED: _ClassVar[ReferenceKind]
    REFERENCE_KIND_PORTRAIT: _ClassVar[ReferenceKind]
    REFERENCE_KIND_VOICE: _ClassVar[ReferenceKind]
    REFERENCE_KIND_FILM: _ClassVar[ReferenceKind]

class Generator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GENERATOR_UNSPECIFIED: _ClassVar[Generator]
    GENERATOR_VOICE: _ClassVar[Generator]
    GENERATOR_FACE: _ClassVar[Generator]
REFERENCE_KIND_UNSPECIFIED: ReferenceKind
REFERENCE_KIND_PORTRAIT: ReferenceKind
REFERENCE_KIND_VOICE: ReferenceKind
REFERENCE_KIND_FILM: ReferenceKind
GENERATOR_UNSPECIFIED: Generator
GENERATOR_VOICE: Generator
GENERATOR_FACE: Generator

class Reference(_message.Message):
    __slots__ = ("digest", "size_bytes", "kind")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    digest: str
    size_bytes: int
    kind: ReferenceKind
    def __init__(self, digest: _Optional[str] = ..., size_bytes: _Optional[int] = ..., kind: _Optional[_Union[ReferenceKind, str]] = ...) -> None: ...

class NewReference(_message.Message):
    __slots__ = ("kind", "size_bytes", "digest")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    kind: ReferenceKind
    size_bytes: int
    digest: str
    def __init__(self, kind: _Optional[_Union[ReferenceKind, str]] = ..., size_bytes: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("use", "granted_by", "granted_on", "purpose", "until")
    USE_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BY_FIELD_NUMBER: _ClassVar[int]
    GRANTED_ON_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    use: str
    granted_by: str
    granted_on: str
    purpose: str
    until: str
    def __init__(self, use: _Optional[str] = ..., granted_by: _Optional[str] = ..., granted_on: _Optional[str] = ..., purpose: _Optional[str] = ..., until: _Optional[str] = ...) -> None: ...

class Identity(_message.Message):
    __slots__ = ("id", "profile", "references", "grants", "emotion_bank", "version", "changed_at_s", "generation")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    EMOTION_BANK_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_S_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    profile: _common_pb2.Profile
    references: _containers.RepeatedCompositeFieldContainer[Reference]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    emotion_bank: str
    version: int
    changed_at_s: float
    generation: str
    def __init__(self, id: _Optional[str] = ..., profile: _Optional[_Union[_common_pb2.Profile, _Mapping]] = ..., references: _Optional[_Iterable[_Union[Reference, _Mapping]]] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., emotion_bank: _Optional[str] = ..., version: _Optional[int] = ..., changed_at_s: _Optional[float] = ..., generation: _Optional[str] = ...) -> None: ...

class EmotionBank(_message.Message):
    __slots__ = ("name", "face_classes", "voice_styles")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASSES_FIELD_NUMBER: _ClassVar[int]
    VOICE_STYLES_FIELD_NUMBER: _ClassVar[int]
    name: str
    face_classes: _containers.RepeatedScalarFieldContainer[str]
    voice_styles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., face_classes: _Optional[_Iterable[str]] = ..., voice_styles: _Optional[_Iterable[str]] = ...) -> None: ...

class AddIdentityHeader(_message.Message):
    __slots__ = ("tenant", "id", "profile", "grants", "emotion_bank", "references")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    EMOTION_BANK_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    id: str
    profile: _common_pb2.Profile
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    emotion_bank: str
    references: _containers.RepeatedCompositeFieldContainer[NewReference]
    def __init__(self, tenant: _Optional[str] = ..., id: _Optional[str] = ..., profile: _Optional[_Union[_common_pb2.Profile, _Mapping]] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., emotion_bank: _Optional[str] = ..., references: _Optional[_Iterable[_Union[NewReference, _Mapping]]] = ...) -> None: ...

class AddIdentityRequest(_message.Message):
    __slots__ = ("header", "content")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    header: AddIdentityHeader
    content: bytes
    def __init__(self, header: _Optional[_Union[AddIdentityHeader, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class AddIdentityResponse(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: Identity
    def __init__(self, identity: _Optional[_Union[Identity, _Mapping]] = ...) -> None: ...

class ChangeIdentityHeader(_message.Message):
    __slots__ = ("tenant", "id", "if_version", "profile", "grants", "emotion_bank", "removed", "added")
    class Grants(_message.Message):
        __slots__ = ("grants",)
        GRANTS_FIELD_NUMBER: _ClassVar[int]
        grants: _containers.RepeatedCompositeFieldContainer[Grant]
        def __init__(self, grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    IF_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    EMOTION_BANK_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    id: str
    if_version: int
    profile: _common_pb2.Profile
    grants: ChangeIdentityHeader.Grants
    emotion_bank: str
    removed: _containers.RepeatedScalarFieldContainer[str]
    added: _containers.RepeatedCompositeFieldContainer[NewReference]
    def __init__(self, tenant: _Optional[str] = ..., id: _Optional[str] = ..., if_version: _Optional[int] = ..., profile: _Optional[_Union[_common_pb2.Profile, _Mapping]] = ..., grants: _Optional[_Union[ChangeIdentityHeader.Grants, _Mapping]] = ..., emotion_bank: _Optional[str] = ..., removed: _Optional[_Iterable[str]] = ..., added: _Optional[_Iterable[_Union[NewReference, _Mapping]]] = ...) -> None: ...

class ChangeIdentityRequest(_message.Message):
    __slots__ = ("header", "content")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    header: ChangeIdentityHeader
    content: bytes
    def __init__(self, header: _Optional[_Union[ChangeIdentityHeader, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class ChangeIdentityResponse(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: Identity
    def __init__(self, identity: _Optional[_Union[Identity, _Mapping]] = ...) -> None: ...

class GetIdentityRequest(_message.Message):
    __slots__ = ("tenant", "identity", "version")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    version: int
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GetIdentityResponse(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: Identity
    def __init__(self, identity: _Optional[_Union[Identity, _Mapping]] = ...) -> None: ...

class ListIdentitiesRequest(_message.Message):
    __slots__ = ("tenant", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class DamagedIdentity(_message.Message):
    __slots__ = ("id", "problem")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    id: str
    problem: str
    def __init__(self, id: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class ListIdentitiesResponse(_message.Message):
    __slots__ = ("identities", "next_page_token", "damaged")
    IDENTITIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    identities: _containers.RepeatedCompositeFieldContainer[Identity]
    next_page_token: str
    damaged: _containers.RepeatedCompositeFieldContainer[DamagedIdentity]
    def __init__(self, identities: _Optional[_Iterable[_Union[Identity, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., damaged: _Optional[_Iterable[_Union[DamagedIdentity, _Mapping]]] = ...) -> None: ...

class GetReferenceRequest(_message.Message):
    __slots__ = ("tenant", "identity", "digest")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    digest: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class GetReferenceResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class GetDerivedRequest(_message.Message):
    __slots__ = ("tenant", "identity", "reference_digests", "model_digest")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    reference_digests: _containers.RepeatedScalarFieldContainer[str]
    model_digest: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., reference_digests: _Optional[_Iterable[str]] = ..., model_digest: _Optional[str] = ...) -> None: ...

class GetDerivedResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class PutDerivedHeader(_message.Message):
    __slots__ = ("tenant", "identity", "reference_digests", "model_digest", "size_bytes")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    reference_digests: _containers.RepeatedScalarFieldContainer[str]
    model_digest: str
    size_bytes: int
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., reference_digests: _Optional[_Iterable[str]] = ..., model_digest: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class PutDerivedRequest(_message.Message):
    __slots__ = ("header", "content")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    header: PutDerivedHeader
    content: bytes
    def __init__(self, header: _Optional[_Union[PutDerivedHeader, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class PutDerivedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PutEmotionBankRequest(_message.Message):
    __slots__ = ("tenant", "bank")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    BANK_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    bank: EmotionBank
    def __init__(self, tenant: _Optional[str] = ..., bank: _Optional[_Union[EmotionBank, _Mapping]] = ...) -> None: ...

class PutEmotionBankResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EmotionReference(_message.Message):
    __slots__ = ("generator", "name", "digest", "size_bytes", "media_type", "own")
    GENERATOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    generator: Generator
    name: str
    digest: str
    size_bytes: int
    media_type: str
    own: bool
    def __init__(self, generator: _Optional[_Union[Generator, str]] = ..., name: _Optional[str] = ..., digest: _Optional[str] = ..., size_bytes: _Optional[int] = ..., media_type: _Optional[str] = ..., own: bool = ...) -> None: ...

class PutEmotionReferenceHeader(_message.Message):
    __slots__ = ("tenant", "identity", "generator", "name", "media_type", "size_bytes")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    GENERATOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    generator: Generator
    name: str
    media_type: str
    size_bytes: int
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., generator: _Optional[_Union[Generator, str]] = ..., name: _Optional[str] = ..., media_type: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class PutEmotionReferenceRequest(_message.Message):
    __slots__ = ("header", "content")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    header: PutEmotionReferenceHeader
    content: bytes
    def __init__(self, header: _Optional[_Union[PutEmotionReferenceHeader, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class PutEmotionReferenceResponse(_message.Message):
    __slots__ = ("reference",)
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    reference: EmotionReference
    def __init__(self, reference: _Optional[_Union[EmotionReference, _Mapping]] = ...) -> None: ...

class GetEmotionReferenceRequest(_message.Message):
    __slots__ = ("tenant", "identity", "generator", "name")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    GENERATOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    generator: Generator
    name: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., generator: _Optional[_Union[Generator, str]] = ..., name: _Optional[str] = ...) -> None: ...

class GetEmotionReferenceResponse(_message.Message):
    __slots__ = ("reference", "content")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    reference: EmotionReference
    content: bytes
    def __init__(self, reference: _Optional[_Union[EmotionReference, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class ListEmotionReferencesRequest(_message.Message):
    __slots__ = ("tenant", "identity")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...

class ListEmotionReferencesResponse(_message.Message):
    __slots__ = ("references",)
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    references: _containers.RepeatedCompositeFieldContainer[EmotionReference]
    def __init__(self, references: _Optional[_Iterable[_Union[EmotionReference, _Mapping]]] = ...) -> None: ...

class RemoveEmotionReferenceRequest(_message.Message):
    __slots__ = ("tenant", "identity", "generator", "name")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    GENERATOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    generator: Generator
    name: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., generator: _Optional[_Union[Generator, str]] = ..., name: _Optional[str] = ...) -> None: ...

class RemoveEmotionReferenceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportIdentityRequest(_message.Message):
    __slots__ = ("tenant", "identity")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...

class ExportIdentityResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class ImportIdentityHeader(_message.Message):
    __slots__ = ("tenant", "identity")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...

class ImportIdentityRequest(_message.Message):
    __slots__ = ("header", "content")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    header: ImportIdentityHeader
    content: bytes
    def __init__(self, header: _Optional[_Union[ImportIdentityHeader, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class ImportIdentityResponse(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: Identity
    def __init__(self, identity: _Optional[_Union[Identity, _Mapping]] = ...) -> None: ...
