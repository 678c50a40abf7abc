from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchReplicaRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchReplicaResponse(_message.Message):
    __slots__ = ("ready", "backlog_s", "call_s", "calls", "model")
    READY_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_S_FIELD_NUMBER: _ClassVar[int]
    CALL_S_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    backlog_s: float
    call_s: float
    calls: int
    model: _any_pb2.Any
    def __init__(self, ready: bool = ..., backlog_s: _Optional[float] = ..., call_s: _Optional[float] = ..., calls: _Optional[int] = ..., model: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...
