from e3rg.common.v1 import common_pb2 as _common_pb2
from e3rg.mllm.v1 import mllm_pb2 as _mllm_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VoteStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VOTE_STATUS_UNSPECIFIED: _ClassVar[VoteStatus]
    VOTE_STATUS_VOTED: _ClassVar[VoteStatus]
    VOTE_STATUS_ABSTAINED: _ClassVar[VoteStatus]
    VOTE_STATUS_LATE: _ClassVar[VoteStatus]
    VOTE_STATUS_FAILED: _ClassVar[VoteStatus]
    VOTE_STATUS_CANCELLED: _ClassVar[VoteStatus]

class Standing(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STANDING_UNSPECIFIED: _ClassVar[Standing]
    STANDING_COUNTED: _ClassVar[Standing]
    STANDING_PROBATION: _ClassVar[Standing]
    STANDING_NOT_WAITED_FOR: _ClassVar[Standing]
VOTE_STATUS_UNSPECIFIED: VoteStatus
VOTE_STATUS_VOTED: VoteStatus
VOTE_STATUS_ABSTAINED: VoteStatus
VOTE_STATUS_LATE: VoteStatus
VOTE_STATUS_FAILED: VoteStatus
VOTE_STATUS_CANCELLED: VoteStatus
STANDING_UNSPECIFIED: Standing
STANDING_COUNTED: Standing
STANDING_PROBATION: Standing
STANDING_NOT_WAITED_FOR: Standing

class GetPanelRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Seat(_message.Message):
    __slots__ = ("voter", "model", "problem", "variant")
    VOTER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    voter: str
    model: _mllm_pb2.GetModelResponse
    problem: str
    variant: str
    def __init__(self, voter: _Optional[str] = ..., model: _Optional[_Union[_mllm_pb2.GetModelResponse, _Mapping]] = ..., problem: _Optional[str] = ..., variant: _Optional[str] = ...) -> None: ...

class GetPanelResponse(_message.Message):
    __slots__ = ("ontology_hash", "seats", "writer", "transcriber", "quorum", "rule", "weights_version", "deadline_s", "early", "writers")
    ONTOLOGY_HASH_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIBER_FIELD_NUMBER: _ClassVar[int]
    QUORUM_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    EARLY_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    ontology_hash: str
    seats: _containers.RepeatedCompositeFieldContainer[Seat]
    writer: str
    transcriber: str
    quorum: int
    rule: str
    weights_version: str
    deadline_s: float
    early: bool
    writers: _containers.RepeatedCompositeFieldContainer[Seat]
    def __init__(self, ontology_hash: _Optional[str] = ..., seats: _Optional[_Iterable[_Union[Seat, _Mapping]]] = ..., writer: _Optional[str] = ..., transcriber: _Optional[str] = ..., quorum: _Optional[int] = ..., rule: _Optional[str] = ..., weights_version: _Optional[str] = ..., deadline_s: _Optional[float] = ..., early: bool = ..., writers: _Optional[_Iterable[_Union[Seat, _Mapping]]] = ...) -> None: ...

class UnderstandHeader(_message.Message):
    __slots__ = ("text", "audio_size_bytes", "video_size_bytes", "ontology_hash", "seed", "variants", "variants_version")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AUDIO_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    VIDEO_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ONTOLOGY_HASH_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_VERSION_FIELD_NUMBER: _ClassVar[int]
    text: str
    audio_size_bytes: int
    video_size_bytes: int
    ontology_hash: str
    seed: int
    variants: _containers.RepeatedCompositeFieldContainer[VoterVariant]
    variants_version: int
    def __init__(self, text: _Optional[str] = ..., audio_size_bytes: _Optional[int] = ..., video_size_bytes: _Optional[int] = ..., ontology_hash: _Optional[str] = ..., seed: _Optional[int] = ..., variants: _Optional[_Iterable[_Union[VoterVariant, _Mapping]]] = ..., variants_version: _Optional[int] = ...) -> None: ...

class VoterVariant(_message.Message):
    __slots__ = ("voter", "variant", "shadows", "named")
    VOTER_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    SHADOWS_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    voter: str
    variant: str
    shadows: _containers.RepeatedScalarFieldContainer[str]
    named: bool
    def __init__(self, voter: _Optional[str] = ..., variant: _Optional[str] = ..., shadows: _Optional[_Iterable[str]] = ..., named: bool = ...) -> None: ...

class UnderstandContext(_message.Message):
    __slots__ = ("history", "risks")
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    RISKS_FIELD_NUMBER: _ClassVar[int]
    history: _containers.RepeatedCompositeFieldContainer[_common_pb2.Utterance]
    risks: _containers.RepeatedCompositeFieldContainer[_common_pb2.EarlierRisk]
    def __init__(self, history: _Optional[_Iterable[_Union[_common_pb2.Utterance, _Mapping]]] = ..., risks: _Optional[_Iterable[_Union[_common_pb2.EarlierRisk, _Mapping]]] = ...) -> None: ...

class UnderstandRequest(_message.Message):
    __slots__ = ("header", "audio", "video", "context")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    VIDEO_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    header: UnderstandHeader
    audio: bytes
    video: bytes
    context: UnderstandContext
    def __init__(self, header: _Optional[_Union[UnderstandHeader, _Mapping]] = ..., audio: _Optional[bytes] = ..., video: _Optional[bytes] = ..., context: _Optional[_Union[UnderstandContext, _Mapping]] = ...) -> None: ...

class Reliability(_message.Message):
    __slots__ = ("agreement", "abstained", "late", "messages", "standing")
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    ABSTAINED_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    agreement: float
    abstained: float
    late: float
    messages: int
    standing: Standing
    def __init__(self, agreement: _Optional[float] = ..., abstained: _Optional[float] = ..., late: _Optional[float] = ..., messages: _Optional[int] = ..., standing: _Optional[_Union[Standing, str]] = ...) -> None: ...

class Vote(_message.Message):
    __slots__ = ("voter", "status", "reason", "prediction", "card", "latency_s", "weight", "label_without", "variant", "reliability")
    VOTER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    LATENCY_S_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LABEL_WITHOUT_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    RELIABILITY_FIELD_NUMBER: _ClassVar[int]
    voter: str
    status: VoteStatus
    reason: str
    prediction: _mllm_pb2.PredictEmotionResponse
    card: _common_pb2.ModelCard
    latency_s: float
    weight: float
    label_without: str
    variant: str
    reliability: Reliability
    def __init__(self, voter: _Optional[str] = ..., status: _Optional[_Union[VoteStatus, str]] = ..., reason: _Optional[str] = ..., prediction: _Optional[_Union[_mllm_pb2.PredictEmotionResponse, _Mapping]] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ..., latency_s: _Optional[float] = ..., weight: _Optional[float] = ..., label_without: _Optional[str] = ..., variant: _Optional[str] = ..., reliability: _Optional[_Union[Reliability, _Mapping]] = ...) -> None: ...

class VoteRecord(_message.Message):
    __slots__ = ("label", "face_class", "rule", "margin", "tie_break", "votes", "distribution", "tally", "entropy_bits", "agreement", "early", "weights_version", "shadow_votes")
    class DistributionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class TallyEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    LABEL_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    MARGIN_FIELD_NUMBER: _ClassVar[int]
    TIE_BREAK_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    TALLY_FIELD_NUMBER: _ClassVar[int]
    ENTROPY_BITS_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    EARLY_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_VERSION_FIELD_NUMBER: _ClassVar[int]
    SHADOW_VOTES_FIELD_NUMBER: _ClassVar[int]
    label: str
    face_class: str
    rule: str
    margin: float
    tie_break: str
    votes: _containers.RepeatedCompositeFieldContainer[Vote]
    distribution: _containers.ScalarMap[str, float]
    tally: _containers.ScalarMap[str, float]
    entropy_bits: float
    agreement: float
    early: bool
    weights_version: str
    shadow_votes: _containers.RepeatedCompositeFieldContainer[Vote]
    def __init__(self, label: _Optional[str] = ..., face_class: _Optional[str] = ..., rule: _Optional[str] = ..., margin: _Optional[float] = ..., tie_break: _Optional[str] = ..., votes: _Optional[_Iterable[_Union[Vote, _Mapping]]] = ..., distribution: _Optional[_Mapping[str, float]] = ..., tally: _Optional[_Mapping[str, float]] = ..., entropy_bits: _Optional[float] = ..., agreement: _Optional[float] = ..., early: bool = ..., weights_version: _Optional[str] = ..., shadow_votes: _Optional[_Iterable[_Union[Vote, _Mapping]]] = ...) -> None: ...

class UnderstandResponse(_message.Message):
    __slots__ = ("text", "transcribed", "emotion", "record", "notes", "decode_s", "transcribe_s", "vote_s", "risk", "risk_is_new", "undecided", "language")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIBED_FIELD_NUMBER: _ClassVar[int]
    EMOTION_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    DECODE_S_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIBE_S_FIELD_NUMBER: _ClassVar[int]
    VOTE_S_FIELD_NUMBER: _ClassVar[int]
    RISK_FIELD_NUMBER: _ClassVar[int]
    RISK_IS_NEW_FIELD_NUMBER: _ClassVar[int]
    UNDECIDED_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    text: str
    transcribed: bool
    emotion: _common_pb2.Emotion
    record: VoteRecord
    notes: _containers.RepeatedScalarFieldContainer[str]
    decode_s: float
    transcribe_s: float
    vote_s: float
    risk: _common_pb2.Risk
    risk_is_new: bool
    undecided: str
    language: str
    def __init__(self, text: _Optional[str] = ..., transcribed: bool = ..., emotion: _Optional[_Union[_common_pb2.Emotion, _Mapping]] = ..., record: _Optional[_Union[VoteRecord, _Mapping]] = ..., notes: _Optional[_Iterable[str]] = ..., decode_s: _Optional[float] = ..., transcribe_s: _Optional[float] = ..., vote_s: _Optional[float] = ..., risk: _Optional[_Union[_common_pb2.Risk, _Mapping]] = ..., risk_is_new: bool = ..., undecided: _Optional[str] = ..., language: _Optional[str] = ...) -> None: ...

class WriteReplyRequest(_message.Message):
    __slots__ = ("reply", "variant", "variants_version", "risk", "risk_is_new", "country", "language")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_VERSION_FIELD_NUMBER: _ClassVar[int]
    RISK_FIELD_NUMBER: _ClassVar[int]
    RISK_IS_NEW_FIELD_NUMBER: _ClassVar[int]
    COUNTRY_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    reply: _mllm_pb2.WriteReplyRequest
    variant: str
    variants_version: int
    risk: _common_pb2.Risk
    risk_is_new: bool
    country: str
    language: str
    def __init__(self, reply: _Optional[_Union[_mllm_pb2.WriteReplyRequest, _Mapping]] = ..., variant: _Optional[str] = ..., variants_version: _Optional[int] = ..., risk: _Optional[_Union[_common_pb2.Risk, _Mapping]] = ..., risk_is_new: bool = ..., country: _Optional[str] = ..., language: _Optional[str] = ...) -> None: ...

class WriteReplyResponse(_message.Message):
    __slots__ = ("sentence", "record", "card")
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    sentence: str
    record: _mllm_pb2.ReplyRecord
    card: _common_pb2.ModelCard
    def __init__(self, sentence: _Optional[str] = ..., record: _Optional[_Union[_mllm_pb2.ReplyRecord, _Mapping]] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ...) -> None: ...

class StageVariant(_message.Message):
    __slots__ = ("stage", "variant", "address", "needed", "control")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    address: str
    needed: bool
    control: bool
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ..., address: _Optional[str] = ..., needed: bool = ..., control: bool = ...) -> None: ...

class CheckVariantsRequest(_message.Message):
    __slots__ = ("variants",)
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    variants: _containers.RepeatedCompositeFieldContainer[StageVariant]
    def __init__(self, variants: _Optional[_Iterable[_Union[StageVariant, _Mapping]]] = ...) -> None: ...

class CheckVariantsResponse(_message.Message):
    __slots__ = ("problems", "not_ready", "lost")
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedScalarFieldContainer[str]
    not_ready: _containers.RepeatedScalarFieldContainer[str]
    lost: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, problems: _Optional[_Iterable[str]] = ..., not_ready: _Optional[_Iterable[str]] = ..., lost: _Optional[_Iterable[str]] = ...) -> None: ...
