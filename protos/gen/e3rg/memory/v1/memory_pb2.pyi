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
REFERENCE_KIND_UNSPECIFIED: ReferenceKind
REFERENCE_KIND_PORTRAIT: ReferenceKind
REFERENCE_KIND_VOICE: ReferenceKind

class Reference(_message.Message):
    __slots__ = ("digest", "size_bytes")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    size_bytes: int
    def __init__(self, digest: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class Consent(_message.Message):
    __slots__ = ("granted_by", "granted_on", "uses")
    GRANTED_BY_FIELD_NUMBER: _ClassVar[int]
    GRANTED_ON_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    granted_by: str
    granted_on: str
    uses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, granted_by: _Optional[str] = ..., granted_on: _Optional[str] = ..., uses: _Optional[_Iterable[str]] = ...) -> None: ...

class Identity(_message.Message):
    __slots__ = ("id", "profile", "portrait", "voice", "consent", "emotion_bank")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PORTRAIT_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    EMOTION_BANK_FIELD_NUMBER: _ClassVar[int]
    id: str
    profile: _common_pb2.Profile
    portrait: Reference
    voice: Reference
    consent: Consent
    emotion_bank: str
    def __init__(self, id: _Optional[str] = ..., profile: _Optional[_Union[_common_pb2.Profile, _Mapping]] = ..., portrait: _Optional[_Union[Reference, _Mapping]] = ..., voice: _Optional[_Union[Reference, _Mapping]] = ..., consent: _Optional[_Union[Consent, _Mapping]] = ..., emotion_bank: _Optional[str] = ...) -> None: ...

class EmotionBank(_message.Message):
    __slots__ = ("name", "face_classes", "voice_styles")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASSES_FIELD_NUMBER: _ClassVar[int]
    VOICE_STYLES_FIELD_NUMBER: _ClassVar[int]
    name: str
    face_classes: _containers.RepeatedScalarFieldContainer[str]
    voice_styles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., face_classes: _Optional[_Iterable[str]] = ..., voice_styles: _Optional[_Iterable[str]] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("id", "user_text", "user_emotion", "reply_text", "reply_emotion")
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_TEXT_FIELD_NUMBER: _ClassVar[int]
    USER_EMOTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_TEXT_FIELD_NUMBER: _ClassVar[int]
    REPLY_EMOTION_FIELD_NUMBER: _ClassVar[int]
    id: str
    user_text: str
    user_emotion: str
    reply_text: str
    reply_emotion: str
    def __init__(self, id: _Optional[str] = ..., user_text: _Optional[str] = ..., user_emotion: _Optional[str] = ..., reply_text: _Optional[str] = ..., reply_emotion: _Optional[str] = ...) -> None: ...

class GetStoreRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStoreResponse(_message.Message):
    __slots__ = ("card",)
    CARD_FIELD_NUMBER: _ClassVar[int]
    card: _common_pb2.ModelCard
    def __init__(self, card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("identity", "conversation", "turns_max")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURNS_MAX_FIELD_NUMBER: _ClassVar[int]
    identity: str
    conversation: str
    turns_max: int
    def __init__(self, identity: _Optional[str] = ..., conversation: _Optional[str] = ..., turns_max: _Optional[int] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("identity", "emotion_bank", "turns", "ontology_hash")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    EMOTION_BANK_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    ONTOLOGY_HASH_FIELD_NUMBER: _ClassVar[int]
    identity: Identity
    emotion_bank: EmotionBank
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    ontology_hash: str
    def __init__(self, identity: _Optional[_Union[Identity, _Mapping]] = ..., emotion_bank: _Optional[_Union[EmotionBank, _Mapping]] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., ontology_hash: _Optional[str] = ...) -> None: ...

class GetReferenceRequest(_message.Message):
    __slots__ = ("identity", "kind")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    identity: str
    kind: ReferenceKind
    def __init__(self, identity: _Optional[str] = ..., kind: _Optional[_Union[ReferenceKind, str]] = ...) -> None: ...

class GetReferenceResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class GetDerivedRequest(_message.Message):
    __slots__ = ("identity", "kind", "reference_digest", "model_digest")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    identity: str
    kind: ReferenceKind
    reference_digest: str
    model_digest: str
    def __init__(self, identity: _Optional[str] = ..., kind: _Optional[_Union[ReferenceKind, str]] = ..., reference_digest: _Optional[str] = ..., model_digest: _Optional[str] = ...) -> None: ...

class GetDerivedResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class PutDerivedRequest(_message.Message):
    __slots__ = ("identity", "kind", "reference_digest", "model_digest", "content")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    identity: str
    kind: ReferenceKind
    reference_digest: str
    model_digest: str
    content: bytes
    def __init__(self, identity: _Optional[str] = ..., kind: _Optional[_Union[ReferenceKind, str]] = ..., reference_digest: _Optional[str] = ..., model_digest: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class PutDerivedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RememberRequest(_message.Message):
    __slots__ = ("identity", "conversation", "turn")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    identity: str
    conversation: str
    turn: Turn
    def __init__(self, identity: _Optional[str] = ..., conversation: _Optional[str] = ..., turn: _Optional[_Union[Turn, _Mapping]] = ...) -> None: ...

class RememberResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListIdentitiesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListIdentitiesResponse(_message.Message):
    __slots__ = ("identities",)
    IDENTITIES_FIELD_NUMBER: _ClassVar[int]
    identities: _containers.RepeatedCompositeFieldContainer[Identity]
    def __init__(self, identities: _Optional[_Iterable[_Union[Identity, _Mapping]]] = ...) -> None: ...

class GetIdentityRequest(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: str
    def __init__(self, identity: _Optional[str] = ...) -> None: ...

class GetIdentityResponse(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: Identity
    def __init__(self, identity: _Optional[_Union[Identity, _Mapping]] = ...) -> None: ...

class AddIdentityHeader(_message.Message):
    __slots__ = ("id", "profile", "consent", "emotion_bank", "portrait_size_bytes", "voice_size_bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    EMOTION_BANK_FIELD_NUMBER: _ClassVar[int]
    PORTRAIT_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    VOICE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    id: str
    profile: _common_pb2.Profile
    consent: Consent
    emotion_bank: str
    portrait_size_bytes: int
    voice_size_bytes: int
    def __init__(self, id: _Optional[str] = ..., profile: _Optional[_Union[_common_pb2.Profile, _Mapping]] = ..., consent: _Optional[_Union[Consent, _Mapping]] = ..., emotion_bank: _Optional[str] = ..., portrait_size_bytes: _Optional[int] = ..., voice_size_bytes: _Optional[int] = ...) -> None: ...

class AddIdentityRequest(_message.Message):
    __slots__ = ("header", "portrait", "voice")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PORTRAIT_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    header: AddIdentityHeader
    portrait: bytes
    voice: bytes
    def __init__(self, header: _Optional[_Union[AddIdentityHeader, _Mapping]] = ..., portrait: _Optional[bytes] = ..., voice: _Optional[bytes] = ...) -> None: ...

class AddIdentityResponse(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: Identity
    def __init__(self, identity: _Optional[_Union[Identity, _Mapping]] = ...) -> None: ...

class RemoveIdentityRequest(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: str
    def __init__(self, identity: _Optional[str] = ...) -> None: ...

class RemoveIdentityResponse(_message.Message):
    __slots__ = ("objects",)
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    objects: int
    def __init__(self, objects: _Optional[int] = ...) -> None: ...
