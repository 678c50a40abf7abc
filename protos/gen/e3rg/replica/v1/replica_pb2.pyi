from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class WatchReplicaRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchReplicaResponse(_message.Message):
    __slots__ = ("ready", "backlog_s", "call_s", "calls")
    READY_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_S_FIELD_NUMBER: _ClassVar[int]
    CALL_S_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    backlog_s: float
    call_s: float
    calls: int
    def __init__(self, ready: bool = ..., backlog_s: _Optional[float] = ..., call_s: _Optional[float] = ..., calls: _Optional[int] = ...) -> None: ...
