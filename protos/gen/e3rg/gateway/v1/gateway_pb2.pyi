from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Span(_message.Message):
    __slots__ = ("stage", "begin_s", "end_s")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_S_FIELD_NUMBER: _ClassVar[int]
    END_S_FIELD_NUMBER: _ClassVar[int]
    stage: str
    begin_s: float
    end_s: float
    def __init__(self, stage: _Optional[str] = ..., begin_s: _Optional[float] = ..., end_s: _Optional[float] = ...) -> None: ...

class GetVariantCountsRequest(_message.Message):
    __slots__ = ("spans",)
    SPANS_FIELD_NUMBER: _ClassVar[int]
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    def __init__(self, spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ...) -> None: ...

class VariantCounts(_message.Message):
    __slots__ = ("variant", "turns", "failed", "degraded", "latencies")
    class LatenciesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    LATENCIES_FIELD_NUMBER: _ClassVar[int]
    variant: str
    turns: int
    failed: int
    degraded: int
    latencies: _containers.ScalarMap[int, int]
    def __init__(self, variant: _Optional[str] = ..., turns: _Optional[int] = ..., failed: _Optional[int] = ..., degraded: _Optional[int] = ..., latencies: _Optional[_Mapping[int, int]] = ...) -> None: ...

class SpanCounts(_message.Message):
    __slots__ = ("variants",)
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    variants: _containers.RepeatedCompositeFieldContainer[VariantCounts]
    def __init__(self, variants: _Optional[_Iterable[_Union[VariantCounts, _Mapping]]] = ...) -> None: ...

class GetVariantCountsResponse(_message.Message):
    __slots__ = ("gateway", "spans")
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    gateway: str
    spans: _containers.RepeatedCompositeFieldContainer[SpanCounts]
    def __init__(self, gateway: _Optional[str] = ..., spans: _Optional[_Iterable[_Union[SpanCounts, _Mapping]]] = ...) -> None: ...
