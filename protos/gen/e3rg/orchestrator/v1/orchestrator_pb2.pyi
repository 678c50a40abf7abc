from e3rg.common.v1 import common_pb2 as _common_pb2
from e3rg.memory.v1 import memory_pb2 as _memory_pb2
from e3rg.mllm.v1 import mllm_pb2 as _mllm_pb2
from e3rg.understanding.v1 import understanding_pb2 as _understanding_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Output(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_UNSPECIFIED: _ClassVar[Output]
    OUTPUT_TEXT: _ClassVar[Output]
    OUTPUT_AUDIO: _ClassVar[Output]
    OUTPUT_VIDEO: _ClassVar[Output]
OUTPUT_UNSPECIFIED: Output
OUTPUT_TEXT: Output
OUTPUT_AUDIO: Output
OUTPUT_VIDEO: Output

class RespondHeader(_message.Message):
    __slots__ = ("text", "audio_size_bytes", "video_size_bytes", "identity", "conversation", "reply_emotion", "reply_intensity", "policy", "output", "seed", "quality", "tenant", "person", "keep_clips", "country")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AUDIO_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    VIDEO_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    REPLY_EMOTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_INTENSITY_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    KEEP_CLIPS_FIELD_NUMBER: _ClassVar[int]
    COUNTRY_FIELD_NUMBER: _ClassVar[int]
    text: str
    audio_size_bytes: int
    video_size_bytes: int
    identity: str
    conversation: str
    reply_emotion: str
    reply_intensity: float
    policy: str
    output: Output
    seed: int
    quality: str
    tenant: str
    person: str
    keep_clips: bool
    country: str
    def __init__(self, text: _Optional[str] = ..., audio_size_bytes: _Optional[int] = ..., video_size_bytes: _Optional[int] = ..., identity: _Optional[str] = ..., conversation: _Optional[str] = ..., reply_emotion: _Optional[str] = ..., reply_intensity: _Optional[float] = ..., policy: _Optional[str] = ..., output: _Optional[_Union[Output, str]] = ..., seed: _Optional[int] = ..., quality: _Optional[str] = ..., tenant: _Optional[str] = ..., person: _Optional[str] = ..., keep_clips: bool = ..., country: _Optional[str] = ...) -> None: ...

class RespondRequest(_message.Message):
    __slots__ = ("header", "audio", "video")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    VIDEO_FIELD_NUMBER: _ClassVar[int]
    header: RespondHeader
    audio: bytes
    video: bytes
    def __init__(self, header: _Optional[_Union[RespondHeader, _Mapping]] = ..., audio: _Optional[bytes] = ..., video: _Optional[bytes] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("emotion", "decided_by", "voice_style", "voice_exact", "face_class", "face_exact")
    EMOTION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    VOICE_STYLE_FIELD_NUMBER: _ClassVar[int]
    VOICE_EXACT_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASS_FIELD_NUMBER: _ClassVar[int]
    FACE_EXACT_FIELD_NUMBER: _ClassVar[int]
    emotion: _common_pb2.Emotion
    decided_by: str
    voice_style: str
    voice_exact: bool
    face_class: str
    face_exact: bool
    def __init__(self, emotion: _Optional[_Union[_common_pb2.Emotion, _Mapping]] = ..., decided_by: _Optional[str] = ..., voice_style: _Optional[str] = ..., voice_exact: bool = ..., face_class: _Optional[str] = ..., face_exact: bool = ...) -> None: ...

class TextDelta(_message.Message):
    __slots__ = ("sentence",)
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    sentence: str
    def __init__(self, sentence: _Optional[str] = ...) -> None: ...

class AudioChunk(_message.Message):
    __slots__ = ("samples", "sample_rate_hz", "phonemes")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    PHONEMES_FIELD_NUMBER: _ClassVar[int]
    samples: bytes
    sample_rate_hz: int
    phonemes: _containers.RepeatedCompositeFieldContainer[_common_pb2.Phoneme]
    def __init__(self, samples: _Optional[bytes] = ..., sample_rate_hz: _Optional[int] = ..., phonemes: _Optional[_Iterable[_Union[_common_pb2.Phoneme, _Mapping]]] = ...) -> None: ...

class VideoChunk(_message.Message):
    __slots__ = ("content", "mime_type", "quality")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    mime_type: str
    quality: str
    def __init__(self, content: _Optional[bytes] = ..., mime_type: _Optional[str] = ..., quality: _Optional[str] = ...) -> None: ...

class StageTiming(_message.Message):
    __slots__ = ("stage", "start_s", "first_s", "end_s")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    FIRST_S_FIELD_NUMBER: _ClassVar[int]
    END_S_FIELD_NUMBER: _ClassVar[int]
    stage: str
    start_s: float
    first_s: float
    end_s: float
    def __init__(self, stage: _Optional[str] = ..., start_s: _Optional[float] = ..., first_s: _Optional[float] = ..., end_s: _Optional[float] = ...) -> None: ...

class Degraded(_message.Message):
    __slots__ = ("stage", "dropped", "reason")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    stage: str
    dropped: str
    reason: str
    def __init__(self, stage: _Optional[str] = ..., dropped: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Served(_message.Message):
    __slots__ = ("stage", "variant", "card")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    card: _common_pb2.ModelCard
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("text", "record", "trace_id", "audio_duration_s", "turn")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    AUDIO_DURATION_S_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    text: str
    record: _mllm_pb2.ReplyRecord
    trace_id: str
    audio_duration_s: float
    turn: str
    def __init__(self, text: _Optional[str] = ..., record: _Optional[_Union[_mllm_pb2.ReplyRecord, _Mapping]] = ..., trace_id: _Optional[str] = ..., audio_duration_s: _Optional[float] = ..., turn: _Optional[str] = ...) -> None: ...

class RespondResponse(_message.Message):
    __slots__ = ("understood", "identity", "delivery", "text", "audio", "video", "timing", "degraded", "done", "recalled", "served", "risk_raised")
    UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    VIDEO_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    RECALLED_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    RISK_RAISED_FIELD_NUMBER: _ClassVar[int]
    understood: _understanding_pb2.UnderstandResponse
    identity: _memory_pb2.RecallResponse
    delivery: Delivery
    text: TextDelta
    audio: AudioChunk
    video: VideoChunk
    timing: StageTiming
    degraded: Degraded
    done: Done
    recalled: _memory_pb2.SearchResponse
    served: Served
    risk_raised: RiskRaised
    def __init__(self, understood: _Optional[_Union[_understanding_pb2.UnderstandResponse, _Mapping]] = ..., identity: _Optional[_Union[_memory_pb2.RecallResponse, _Mapping]] = ..., delivery: _Optional[_Union[Delivery, _Mapping]] = ..., text: _Optional[_Union[TextDelta, _Mapping]] = ..., audio: _Optional[_Union[AudioChunk, _Mapping]] = ..., video: _Optional[_Union[VideoChunk, _Mapping]] = ..., timing: _Optional[_Union[StageTiming, _Mapping]] = ..., degraded: _Optional[_Union[Degraded, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., recalled: _Optional[_Union[_memory_pb2.SearchResponse, _Mapping]] = ..., served: _Optional[_Union[Served, _Mapping]] = ..., risk_raised: _Optional[_Union[RiskRaised, _Mapping]] = ...) -> None: ...

class RiskRaised(_message.Message):
    __slots__ = ("risk", "conversation", "id")
    RISK_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    risk: _common_pb2.Risk
    conversation: str
    id: str
    def __init__(self, risk: _Optional[_Union[_common_pb2.Risk, _Mapping]] = ..., conversation: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("name", "address", "ready", "problem", "card", "replicas", "replicas_ready", "variant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_READY_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    ready: bool
    problem: str
    card: _common_pb2.ModelCard
    replicas: int
    replicas_ready: int
    variant: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., ready: bool = ..., problem: _Optional[str] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ..., replicas: _Optional[int] = ..., replicas_ready: _Optional[int] = ..., variant: _Optional[str] = ...) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("services",)
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    services: _containers.RepeatedCompositeFieldContainer[ServiceStatus]
    def __init__(self, services: _Optional[_Iterable[_Union[ServiceStatus, _Mapping]]] = ...) -> None: ...
