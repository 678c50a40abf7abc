from e3rg.common.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetModelRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("card", "face_classes", "fps", "size_px", "qualities", "segment_min_s", "segment_max_s", "backlog_s", "segment_first_s", "segment_window_s")
    CARD_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASSES_FIELD_NUMBER: _ClassVar[int]
    FPS_FIELD_NUMBER: _ClassVar[int]
    SIZE_PX_FIELD_NUMBER: _ClassVar[int]
    QUALITIES_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_MIN_S_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_MAX_S_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_S_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIRST_S_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_WINDOW_S_FIELD_NUMBER: _ClassVar[int]
    card: _common_pb2.ModelCard
    face_classes: _containers.RepeatedScalarFieldContainer[str]
    fps: int
    size_px: int
    qualities: _containers.RepeatedScalarFieldContainer[str]
    segment_min_s: float
    segment_max_s: float
    backlog_s: float
    segment_first_s: float
    segment_window_s: float
    def __init__(self, card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ..., face_classes: _Optional[_Iterable[str]] = ..., fps: _Optional[int] = ..., size_px: _Optional[int] = ..., qualities: _Optional[_Iterable[str]] = ..., segment_min_s: _Optional[float] = ..., segment_max_s: _Optional[float] = ..., backlog_s: _Optional[float] = ..., segment_first_s: _Optional[float] = ..., segment_window_s: _Optional[float] = ...) -> None: ...

class CheckPortraitRequest(_message.Message):
    __slots__ = ("image",)
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    image: bytes
    def __init__(self, image: _Optional[bytes] = ...) -> None: ...

class CheckPortraitResponse(_message.Message):
    __slots__ = ("width_px", "height_px")
    WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    width_px: int
    height_px: int
    def __init__(self, width_px: _Optional[int] = ..., height_px: _Optional[int] = ...) -> None: ...

class CheckFilmHeader(_message.Message):
    __slots__ = ("size_bytes",)
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    size_bytes: int
    def __init__(self, size_bytes: _Optional[int] = ...) -> None: ...

class CheckFilmRequest(_message.Message):
    __slots__ = ("header", "content")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    header: CheckFilmHeader
    content: bytes
    def __init__(self, header: _Optional[_Union[CheckFilmHeader, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class CheckFilmResponse(_message.Message):
    __slots__ = ("duration_s", "face_share")
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    FACE_SHARE_FIELD_NUMBER: _ClassVar[int]
    duration_s: float
    face_share: float
    def __init__(self, duration_s: _Optional[float] = ..., face_share: _Optional[float] = ...) -> None: ...

class AnimateHeader(_message.Message):
    __slots__ = ("emotion", "face_class", "portrait_digest", "sample_rate_hz", "seed", "portrait_size_bytes", "first_frame", "duration_s", "quality", "rigged_size_bytes")
    EMOTION_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASS_FIELD_NUMBER: _ClassVar[int]
    PORTRAIT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PORTRAIT_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FRAME_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    RIGGED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    emotion: _common_pb2.Emotion
    face_class: str
    portrait_digest: str
    sample_rate_hz: int
    seed: int
    portrait_size_bytes: int
    first_frame: int
    duration_s: float
    quality: str
    rigged_size_bytes: int
    def __init__(self, emotion: _Optional[_Union[_common_pb2.Emotion, _Mapping]] = ..., face_class: _Optional[str] = ..., portrait_digest: _Optional[str] = ..., sample_rate_hz: _Optional[int] = ..., seed: _Optional[int] = ..., portrait_size_bytes: _Optional[int] = ..., first_frame: _Optional[int] = ..., duration_s: _Optional[float] = ..., quality: _Optional[str] = ..., rigged_size_bytes: _Optional[int] = ...) -> None: ...

class SpeechChunk(_message.Message):
    __slots__ = ("samples", "phonemes")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    PHONEMES_FIELD_NUMBER: _ClassVar[int]
    samples: bytes
    phonemes: _containers.RepeatedCompositeFieldContainer[_common_pb2.Phoneme]
    def __init__(self, samples: _Optional[bytes] = ..., phonemes: _Optional[_Iterable[_Union[_common_pb2.Phoneme, _Mapping]]] = ...) -> None: ...

class AnimateRequest(_message.Message):
    __slots__ = ("header", "portrait", "speech", "rigged")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PORTRAIT_FIELD_NUMBER: _ClassVar[int]
    SPEECH_FIELD_NUMBER: _ClassVar[int]
    RIGGED_FIELD_NUMBER: _ClassVar[int]
    header: AnimateHeader
    portrait: bytes
    speech: SpeechChunk
    rigged: bytes
    def __init__(self, header: _Optional[_Union[AnimateHeader, _Mapping]] = ..., portrait: _Optional[bytes] = ..., speech: _Optional[_Union[SpeechChunk, _Mapping]] = ..., rigged: _Optional[bytes] = ...) -> None: ...

class FaceReady(_message.Message):
    __slots__ = ("rig_s", "mime_type", "quality", "cost_s", "backlog_s", "replica", "card")
    RIG_S_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    COST_S_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_S_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    rig_s: float
    mime_type: str
    quality: str
    cost_s: float
    backlog_s: float
    replica: str
    card: _common_pb2.ModelCard
    def __init__(self, rig_s: _Optional[float] = ..., mime_type: _Optional[str] = ..., quality: _Optional[str] = ..., cost_s: _Optional[float] = ..., backlog_s: _Optional[float] = ..., replica: _Optional[str] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ...) -> None: ...

class AnimateProgress(_message.Message):
    __slots__ = ("done",)
    DONE_FIELD_NUMBER: _ClassVar[int]
    done: float
    def __init__(self, done: _Optional[float] = ...) -> None: ...

class AnimateResponse(_message.Message):
    __slots__ = ("ready", "chunk", "progress", "rigged")
    READY_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RIGGED_FIELD_NUMBER: _ClassVar[int]
    ready: FaceReady
    chunk: bytes
    progress: AnimateProgress
    rigged: bytes
    def __init__(self, ready: _Optional[_Union[FaceReady, _Mapping]] = ..., chunk: _Optional[bytes] = ..., progress: _Optional[_Union[AnimateProgress, _Mapping]] = ..., rigged: _Optional[bytes] = ...) -> None: ...
