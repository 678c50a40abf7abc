from e3rg.common.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Operation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATION_UNSPECIFIED: _ClassVar[Operation]
    OPERATION_PREDICT: _ClassVar[Operation]
    OPERATION_WRITE: _ClassVar[Operation]
    OPERATION_TRANSCRIBE: _ClassVar[Operation]

class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEVEL_UNSPECIFIED: _ClassVar[Level]
    LEVEL_LABEL: _ClassVar[Level]
    LEVEL_CLASS: _ClassVar[Level]

class Act(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACT_UNSPECIFIED: _ClassVar[Act]
    ACT_TELLING: _ClassVar[Act]
    ACT_FACT: _ClassVar[Act]
    ACT_FAVOUR: _ClassVar[Act]
    ACT_ADVICE: _ClassVar[Act]
    ACT_SMALLTALK: _ClassVar[Act]
    ACT_ABOUT: _ClassVar[Act]
    ACT_COMPLAINT: _ClassVar[Act]
    ACT_THANKS: _ClassVar[Act]
    ACT_GOODBYE: _ClassVar[Act]
    ACT_ANSWER: _ClassVar[Act]
OPERATION_UNSPECIFIED: Operation
OPERATION_PREDICT: Operation
OPERATION_WRITE: Operation
OPERATION_TRANSCRIBE: Operation
LEVEL_UNSPECIFIED: Level
LEVEL_LABEL: Level
LEVEL_CLASS: Level
ACT_UNSPECIFIED: Act
ACT_TELLING: Act
ACT_FACT: Act
ACT_FAVOUR: Act
ACT_ADVICE: Act
ACT_SMALLTALK: Act
ACT_ABOUT: Act
ACT_COMPLAINT: Act
ACT_THANKS: Act
ACT_GOODBYE: Act
ACT_ANSWER: Act

class GetModelRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("card", "operations", "perceives", "level", "writes")
    CARD_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    PERCEIVES_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    card: _common_pb2.ModelCard
    operations: _containers.RepeatedScalarFieldContainer[Operation]
    perceives: _containers.RepeatedScalarFieldContainer[_common_pb2.Modality]
    level: Level
    writes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ..., operations: _Optional[_Iterable[_Union[Operation, str]]] = ..., perceives: _Optional[_Iterable[_Union[_common_pb2.Modality, str]]] = ..., level: _Optional[_Union[Level, str]] = ..., writes: _Optional[_Iterable[str]] = ...) -> None: ...

class PredictEmotionHeader(_message.Message):
    __slots__ = ("text", "history", "ontology_hash", "seed")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    ONTOLOGY_HASH_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    text: str
    history: _containers.RepeatedCompositeFieldContainer[_common_pb2.Utterance]
    ontology_hash: str
    seed: int
    def __init__(self, text: _Optional[str] = ..., history: _Optional[_Iterable[_Union[_common_pb2.Utterance, _Mapping]]] = ..., ontology_hash: _Optional[str] = ..., seed: _Optional[int] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("time_s", "jpeg")
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    JPEG_FIELD_NUMBER: _ClassVar[int]
    time_s: float
    jpeg: bytes
    def __init__(self, time_s: _Optional[float] = ..., jpeg: _Optional[bytes] = ...) -> None: ...

class PredictEmotionRequest(_message.Message):
    __slots__ = ("header", "audio", "frame")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    header: PredictEmotionHeader
    audio: bytes
    frame: Frame
    def __init__(self, header: _Optional[_Union[PredictEmotionHeader, _Mapping]] = ..., audio: _Optional[bytes] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ...) -> None: ...

class Shot(_message.Message):
    __slots__ = ("id", "label", "similarity")
    ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    label: str
    similarity: float
    def __init__(self, id: _Optional[str] = ..., label: _Optional[str] = ..., similarity: _Optional[float] = ...) -> None: ...

class PredictEmotionResponse(_message.Message):
    __slots__ = ("distribution", "label", "level", "face_class", "saw", "parse", "abstained", "evidence", "crisis", "shots", "history_dropped", "answer", "card")
    class DistributionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class EvidenceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASS_FIELD_NUMBER: _ClassVar[int]
    SAW_FIELD_NUMBER: _ClassVar[int]
    PARSE_FIELD_NUMBER: _ClassVar[int]
    ABSTAINED_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    CRISIS_FIELD_NUMBER: _ClassVar[int]
    SHOTS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_DROPPED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    distribution: _containers.ScalarMap[str, float]
    label: str
    level: Level
    face_class: str
    saw: _containers.RepeatedScalarFieldContainer[_common_pb2.Modality]
    parse: str
    abstained: str
    evidence: _containers.ScalarMap[str, str]
    crisis: bool
    shots: _containers.RepeatedCompositeFieldContainer[Shot]
    history_dropped: int
    answer: str
    card: _common_pb2.ModelCard
    def __init__(self, distribution: _Optional[_Mapping[str, float]] = ..., label: _Optional[str] = ..., level: _Optional[_Union[Level, str]] = ..., face_class: _Optional[str] = ..., saw: _Optional[_Iterable[_Union[_common_pb2.Modality, str]]] = ..., parse: _Optional[str] = ..., abstained: _Optional[str] = ..., evidence: _Optional[_Mapping[str, str]] = ..., crisis: bool = ..., shots: _Optional[_Iterable[_Union[Shot, _Mapping]]] = ..., history_dropped: _Optional[int] = ..., answer: _Optional[str] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ...) -> None: ...

class TranscribeRequest(_message.Message):
    __slots__ = ("audio",)
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    audio: bytes
    def __init__(self, audio: _Optional[bytes] = ...) -> None: ...

class TranscribeResponse(_message.Message):
    __slots__ = ("text", "language", "no_speech")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    NO_SPEECH_FIELD_NUMBER: _ClassVar[int]
    text: str
    language: str
    no_speech: float
    def __init__(self, text: _Optional[str] = ..., language: _Optional[str] = ..., no_speech: _Optional[float] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("text", "emotion", "turns_ago", "age_s", "similarity")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    EMOTION_FIELD_NUMBER: _ClassVar[int]
    TURNS_AGO_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    text: str
    emotion: str
    turns_ago: int
    age_s: float
    similarity: float
    def __init__(self, text: _Optional[str] = ..., emotion: _Optional[str] = ..., turns_ago: _Optional[int] = ..., age_s: _Optional[float] = ..., similarity: _Optional[float] = ...) -> None: ...

class Example(_message.Message):
    __slots__ = ("user_text", "user_emotion", "reply_text", "similarity")
    USER_TEXT_FIELD_NUMBER: _ClassVar[int]
    USER_EMOTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_TEXT_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    user_text: str
    user_emotion: str
    reply_text: str
    similarity: float
    def __init__(self, user_text: _Optional[str] = ..., user_emotion: _Optional[str] = ..., reply_text: _Optional[str] = ..., similarity: _Optional[float] = ...) -> None: ...

class WriteReplyRequest(_message.Message):
    __slots__ = ("text", "history", "user_emotion", "reply_emotion", "profile", "seed", "memories", "examples", "act", "replies", "may_restate")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    USER_EMOTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_EMOTION_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    ACT_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    MAY_RESTATE_FIELD_NUMBER: _ClassVar[int]
    text: str
    history: _containers.RepeatedCompositeFieldContainer[_common_pb2.Utterance]
    user_emotion: _common_pb2.Emotion
    reply_emotion: _common_pb2.Emotion
    profile: _common_pb2.Profile
    seed: int
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    examples: _containers.RepeatedCompositeFieldContainer[Example]
    act: Act
    replies: _containers.RepeatedScalarFieldContainer[str]
    may_restate: bool
    def __init__(self, text: _Optional[str] = ..., history: _Optional[_Iterable[_Union[_common_pb2.Utterance, _Mapping]]] = ..., user_emotion: _Optional[_Union[_common_pb2.Emotion, _Mapping]] = ..., reply_emotion: _Optional[_Union[_common_pb2.Emotion, _Mapping]] = ..., profile: _Optional[_Union[_common_pb2.Profile, _Mapping]] = ..., seed: _Optional[int] = ..., memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., examples: _Optional[_Iterable[_Union[Example, _Mapping]]] = ..., act: _Optional[_Union[Act, str]] = ..., replies: _Optional[_Iterable[str]] = ..., may_restate: bool = ...) -> None: ...

class MemoryUse(_message.Message):
    __slots__ = ("sentence", "read", "unused")
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    sentence: str
    read: bool
    unused: str
    def __init__(self, sentence: _Optional[str] = ..., read: bool = ..., unused: _Optional[str] = ...) -> None: ...

class ReplyRecord(_message.Message):
    __slots__ = ("degraded", "candidates", "rejected", "retries", "history_dropped", "memories", "examples_used", "card", "act", "tone")
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    HISTORY_DROPPED_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_USED_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    ACT_FIELD_NUMBER: _ClassVar[int]
    TONE_FIELD_NUMBER: _ClassVar[int]
    degraded: str
    candidates: int
    rejected: _containers.RepeatedScalarFieldContainer[str]
    retries: int
    history_dropped: int
    memories: _containers.RepeatedCompositeFieldContainer[MemoryUse]
    examples_used: int
    card: _common_pb2.ModelCard
    act: Act
    tone: str
    def __init__(self, degraded: _Optional[str] = ..., candidates: _Optional[int] = ..., rejected: _Optional[_Iterable[str]] = ..., retries: _Optional[int] = ..., history_dropped: _Optional[int] = ..., memories: _Optional[_Iterable[_Union[MemoryUse, _Mapping]]] = ..., examples_used: _Optional[int] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ..., act: _Optional[_Union[Act, str]] = ..., tone: _Optional[str] = ...) -> None: ...

class WriteReplyResponse(_message.Message):
    __slots__ = ("sentence", "record", "card")
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    sentence: str
    record: ReplyRecord
    card: _common_pb2.ModelCard
    def __init__(self, sentence: _Optional[str] = ..., record: _Optional[_Union[ReplyRecord, _Mapping]] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ...) -> None: ...
