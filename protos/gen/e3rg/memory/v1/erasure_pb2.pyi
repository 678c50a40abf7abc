from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Retention(_message.Message):
    __slots__ = ("turns_days", "clips_days", "derived_days", "audits_days")
    TURNS_DAYS_FIELD_NUMBER: _ClassVar[int]
    CLIPS_DAYS_FIELD_NUMBER: _ClassVar[int]
    DERIVED_DAYS_FIELD_NUMBER: _ClassVar[int]
    AUDITS_DAYS_FIELD_NUMBER: _ClassVar[int]
    turns_days: int
    clips_days: int
    derived_days: int
    audits_days: int
    def __init__(self, turns_days: _Optional[int] = ..., clips_days: _Optional[int] = ..., derived_days: _Optional[int] = ..., audits_days: _Optional[int] = ...) -> None: ...

class SetRetentionRequest(_message.Message):
    __slots__ = ("tenant", "retention")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    retention: Retention
    def __init__(self, tenant: _Optional[str] = ..., retention: _Optional[_Union[Retention, _Mapping]] = ...) -> None: ...

class SetRetentionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRetentionRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class GetRetentionResponse(_message.Message):
    __slots__ = ("retention",)
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    retention: Retention
    def __init__(self, retention: _Optional[_Union[Retention, _Mapping]] = ...) -> None: ...

class ErasedCount(_message.Message):
    __slots__ = ("kind", "objects", "size_bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    objects: int
    size_bytes: int
    def __init__(self, kind: _Optional[str] = ..., objects: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class Audit(_message.Message):
    __slots__ = ("id", "what", "asked_by", "begun_at_s", "done_at_s", "counts", "caches_gone_by_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    BEGUN_AT_S_FIELD_NUMBER: _ClassVar[int]
    DONE_AT_S_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    CACHES_GONE_BY_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    what: str
    asked_by: str
    begun_at_s: float
    done_at_s: float
    counts: _containers.RepeatedCompositeFieldContainer[ErasedCount]
    caches_gone_by_s: float
    def __init__(self, id: _Optional[str] = ..., what: _Optional[str] = ..., asked_by: _Optional[str] = ..., begun_at_s: _Optional[float] = ..., done_at_s: _Optional[float] = ..., counts: _Optional[_Iterable[_Union[ErasedCount, _Mapping]]] = ..., caches_gone_by_s: _Optional[float] = ...) -> None: ...

class EraseIdentityRequest(_message.Message):
    __slots__ = ("tenant", "identity", "asked_by")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    asked_by: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., asked_by: _Optional[str] = ...) -> None: ...

class EraseIdentityResponse(_message.Message):
    __slots__ = ("audit",)
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    audit: Audit
    def __init__(self, audit: _Optional[_Union[Audit, _Mapping]] = ...) -> None: ...

class ErasePersonRequest(_message.Message):
    __slots__ = ("tenant", "person", "conversation", "asked_by")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    person: str
    conversation: str
    asked_by: str
    def __init__(self, tenant: _Optional[str] = ..., person: _Optional[str] = ..., conversation: _Optional[str] = ..., asked_by: _Optional[str] = ...) -> None: ...

class ErasePersonResponse(_message.Message):
    __slots__ = ("audit",)
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    audit: Audit
    def __init__(self, audit: _Optional[_Union[Audit, _Mapping]] = ...) -> None: ...

class EraseTenantRequest(_message.Message):
    __slots__ = ("tenant", "asked_by")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    asked_by: str
    def __init__(self, tenant: _Optional[str] = ..., asked_by: _Optional[str] = ...) -> None: ...

class EraseTenantResponse(_message.Message):
    __slots__ = ("audit",)
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    audit: Audit
    def __init__(self, audit: _Optional[_Union[Audit, _Mapping]] = ...) -> None: ...

class ListAuditsRequest(_message.Message):
    __slots__ = ("tenant", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAuditsResponse(_message.Message):
    __slots__ = ("audits", "next_page_token")
    AUDITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    audits: _containers.RepeatedCompositeFieldContainer[Audit]
    next_page_token: str
    def __init__(self, audits: _Optional[_Iterable[_Union[Audit, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
