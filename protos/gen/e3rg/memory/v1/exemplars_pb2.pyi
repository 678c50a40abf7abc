from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Exemplar(_message.Message):
    __slots__ = ("id", "user_text", "user_emotion", "reply_text")
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_TEXT_FIELD_NUMBER: _ClassVar[int]
    USER_EMOTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    user_text: str
    user_emotion: str
    reply_text: str
    def __init__(self, id: _Optional[str] = ..., user_text: _Optional[str] = ..., user_emotion: _Optional[str] = ..., reply_text: _Optional[str] = ...) -> None: ...

class PutExemplarsRequest(_message.Message):
    __slots__ = ("tenant", "identity", "exemplars")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    EXEMPLARS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    exemplars: _containers.RepeatedCompositeFieldContainer[Exemplar]
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., exemplars: _Optional[_Iterable[_Union[Exemplar, _Mapping]]] = ...) -> None: ...

class PutExemplarsResponse(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListExemplarsRequest(_message.Message):
    __slots__ = ("tenant", "identity", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListExemplarsResponse(_message.Message):
    __slots__ = ("exemplars", "next_page_token")
    EXEMPLARS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    exemplars: _containers.RepeatedCompositeFieldContainer[Exemplar]
    next_page_token: str
    def __init__(self, exemplars: _Optional[_Iterable[_Union[Exemplar, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SearchExemplarsRequest(_message.Message):
    __slots__ = ("tenant", "identity", "text", "hits_max", "similarity_min", "user_emotions")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HITS_MAX_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_MIN_FIELD_NUMBER: _ClassVar[int]
    USER_EMOTIONS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    text: str
    hits_max: int
    similarity_min: float
    user_emotions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., text: _Optional[str] = ..., hits_max: _Optional[int] = ..., similarity_min: _Optional[float] = ..., user_emotions: _Optional[_Iterable[str]] = ...) -> None: ...

class ExemplarHit(_message.Message):
    __slots__ = ("exemplar", "similarity")
    EXEMPLAR_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    exemplar: Exemplar
    similarity: float
    def __init__(self, exemplar: _Optional[_Union[Exemplar, _Mapping]] = ..., similarity: _Optional[float] = ...) -> None: ...

class SearchExemplarsResponse(_message.Message):
    __slots__ = ("hits", "model_digest")
    HITS_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[ExemplarHit]
    model_digest: str
    def __init__(self, hits: _Optional[_Iterable[_Union[ExemplarHit, _Mapping]]] = ..., model_digest: _Optional[str] = ...) -> None: ...

class RemoveExemplarsRequest(_message.Message):
    __slots__ = ("tenant", "identity", "ids")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RemoveExemplarsResponse(_message.Message):
    __slots__ = ("exemplars",)
    EXEMPLARS_FIELD_NUMBER: _ClassVar[int]
    exemplars: int
    def __init__(self, exemplars: _Optional[int] = ...) -> None: ...
