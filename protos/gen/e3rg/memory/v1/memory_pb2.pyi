from e3rg.common.v1 import common_pb2 as _common_pb2
from e3rg.memory.v1 import exemplars_pb2 as _exemplars_pb2
from e3rg.memory.v1 import identities_pb2 as _identities_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClipKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLIP_KIND_UNSPECIFIED: _ClassVar[ClipKind]
    CLIP_KIND_SPEECH: _ClassVar[ClipKind]
    CLIP_KIND_VIDEO: _ClassVar[ClipKind]
CLIP_KIND_UNSPECIFIED: ClipKind
CLIP_KIND_SPEECH: ClipKind
CLIP_KIND_VIDEO: ClipKind

class Turn(_message.Message):
    __slots__ = ("id", "user_text", "user_emotion", "reply_text", "reply_emotion", "user_intensity", "vote_record", "models", "timings_s", "said_at_s", "clips", "conversation", "variants", "votes", "delivery", "experiment", "phase", "degraded")
    class ModelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class TimingsSEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class VariantsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_TEXT_FIELD_NUMBER: _ClassVar[int]
    USER_EMOTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_TEXT_FIELD_NUMBER: _ClassVar[int]
    REPLY_EMOTION_FIELD_NUMBER: _ClassVar[int]
    USER_INTENSITY_FIELD_NUMBER: _ClassVar[int]
    VOTE_RECORD_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_S_FIELD_NUMBER: _ClassVar[int]
    SAID_AT_S_FIELD_NUMBER: _ClassVar[int]
    CLIPS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    id: str
    user_text: str
    user_emotion: str
    reply_text: str
    reply_emotion: str
    user_intensity: float
    vote_record: bytes
    models: _containers.ScalarMap[str, str]
    timings_s: _containers.ScalarMap[str, float]
    said_at_s: float
    clips: _containers.RepeatedCompositeFieldContainer[Clip]
    conversation: str
    variants: _containers.ScalarMap[str, str]
    votes: _containers.RepeatedCompositeFieldContainer[TurnVote]
    delivery: TurnDelivery
    experiment: str
    phase: int
    degraded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., user_text: _Optional[str] = ..., user_emotion: _Optional[str] = ..., reply_text: _Optional[str] = ..., reply_emotion: _Optional[str] = ..., user_intensity: _Optional[float] = ..., vote_record: _Optional[bytes] = ..., models: _Optional[_Mapping[str, str]] = ..., timings_s: _Optional[_Mapping[str, float]] = ..., said_at_s: _Optional[float] = ..., clips: _Optional[_Iterable[_Union[Clip, _Mapping]]] = ..., conversation: _Optional[str] = ..., variants: _Optional[_Mapping[str, str]] = ..., votes: _Optional[_Iterable[_Union[TurnVote, _Mapping]]] = ..., delivery: _Optional[_Union[TurnDelivery, _Mapping]] = ..., experiment: _Optional[str] = ..., phase: _Optional[int] = ..., degraded: _Optional[_Iterable[str]] = ...) -> None: ...

class TurnVote(_message.Message):
    __slots__ = ("voter", "label", "weight", "latency_s")
    VOTER_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LATENCY_S_FIELD_NUMBER: _ClassVar[int]
    voter: str
    label: str
    weight: float
    latency_s: float
    def __init__(self, voter: _Optional[str] = ..., label: _Optional[str] = ..., weight: _Optional[float] = ..., latency_s: _Optional[float] = ...) -> None: ...

class TurnDelivery(_message.Message):
    __slots__ = ("decided_by", "intensity", "voice_style", "face_class")
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    INTENSITY_FIELD_NUMBER: _ClassVar[int]
    VOICE_STYLE_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASS_FIELD_NUMBER: _ClassVar[int]
    decided_by: str
    intensity: float
    voice_style: str
    face_class: str
    def __init__(self, decided_by: _Optional[str] = ..., intensity: _Optional[float] = ..., voice_style: _Optional[str] = ..., face_class: _Optional[str] = ...) -> None: ...

class Clip(_message.Message):
    __slots__ = ("kind", "digest", "size_bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: ClipKind
    digest: str
    size_bytes: int
    def __init__(self, kind: _Optional[_Union[ClipKind, str]] = ..., digest: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("label", "weights", "valence", "arousal", "valence_change", "half_life_s")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    LABEL_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    VALENCE_FIELD_NUMBER: _ClassVar[int]
    AROUSAL_FIELD_NUMBER: _ClassVar[int]
    VALENCE_CHANGE_FIELD_NUMBER: _ClassVar[int]
    HALF_LIFE_S_FIELD_NUMBER: _ClassVar[int]
    label: str
    weights: _containers.ScalarMap[str, float]
    valence: float
    arousal: float
    valence_change: float
    half_life_s: float
    def __init__(self, label: _Optional[str] = ..., weights: _Optional[_Mapping[str, float]] = ..., valence: _Optional[float] = ..., arousal: _Optional[float] = ..., valence_change: _Optional[float] = ..., half_life_s: _Optional[float] = ...) -> None: ...

class GetStoreRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStoreResponse(_message.Message):
    __slots__ = ("card", "problem")
    CARD_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    card: _common_pb2.ModelCard
    problem: str
    def __init__(self, card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ..., problem: _Optional[str] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("tenant", "identity", "conversation", "turns_max", "person", "uses", "experiment")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURNS_MAX_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    conversation: str
    turns_max: int
    person: str
    uses: _containers.RepeatedScalarFieldContainer[str]
    experiment: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., conversation: _Optional[str] = ..., turns_max: _Optional[int] = ..., person: _Optional[str] = ..., uses: _Optional[_Iterable[str]] = ..., experiment: _Optional[str] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("identity", "emotion_bank", "turns", "ontology_hash", "trajectory", "stale_s", "person_generation", "damaged", "variants", "assigned", "risks")
    class VariantsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AssignedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    EMOTION_BANK_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    ONTOLOGY_HASH_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    STALE_S_FIELD_NUMBER: _ClassVar[int]
    PERSON_GENERATION_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    RISKS_FIELD_NUMBER: _ClassVar[int]
    identity: _identities_pb2.Identity
    emotion_bank: _identities_pb2.EmotionBank
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    ontology_hash: str
    trajectory: Trajectory
    stale_s: float
    person_generation: str
    damaged: _containers.RepeatedScalarFieldContainer[str]
    variants: _containers.ScalarMap[str, str]
    assigned: _containers.ScalarMap[str, str]
    risks: _containers.RepeatedCompositeFieldContainer[_common_pb2.EarlierRisk]
    def __init__(self, identity: _Optional[_Union[_identities_pb2.Identity, _Mapping]] = ..., emotion_bank: _Optional[_Union[_identities_pb2.EmotionBank, _Mapping]] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., ontology_hash: _Optional[str] = ..., trajectory: _Optional[_Union[Trajectory, _Mapping]] = ..., stale_s: _Optional[float] = ..., person_generation: _Optional[str] = ..., damaged: _Optional[_Iterable[str]] = ..., variants: _Optional[_Mapping[str, str]] = ..., assigned: _Optional[_Mapping[str, str]] = ..., risks: _Optional[_Iterable[_Union[_common_pb2.EarlierRisk, _Mapping]]] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("tenant", "identity", "person", "conversation", "text", "hits_max", "similarity_min", "age_max_s", "user_emotions", "without", "here", "examples_max")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HITS_MAX_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_MIN_FIELD_NUMBER: _ClassVar[int]
    AGE_MAX_S_FIELD_NUMBER: _ClassVar[int]
    USER_EMOTIONS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    HERE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_MAX_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    person: str
    conversation: str
    text: str
    hits_max: int
    similarity_min: float
    age_max_s: float
    user_emotions: _containers.RepeatedScalarFieldContainer[str]
    without: _containers.RepeatedScalarFieldContainer[str]
    here: str
    examples_max: int
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., person: _Optional[str] = ..., conversation: _Optional[str] = ..., text: _Optional[str] = ..., hits_max: _Optional[int] = ..., similarity_min: _Optional[float] = ..., age_max_s: _Optional[float] = ..., user_emotions: _Optional[_Iterable[str]] = ..., without: _Optional[_Iterable[str]] = ..., here: _Optional[str] = ..., examples_max: _Optional[int] = ...) -> None: ...

class Hit(_message.Message):
    __slots__ = ("turn", "similarity", "turns_ago")
    TURN_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    TURNS_AGO_FIELD_NUMBER: _ClassVar[int]
    turn: Turn
    similarity: float
    turns_ago: int
    def __init__(self, turn: _Optional[_Union[Turn, _Mapping]] = ..., similarity: _Optional[float] = ..., turns_ago: _Optional[int] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("hits", "model_digest", "examples")
    HITS_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[Hit]
    model_digest: str
    examples: _containers.RepeatedCompositeFieldContainer[_exemplars_pb2.ExemplarHit]
    def __init__(self, hits: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ..., model_digest: _Optional[str] = ..., examples: _Optional[_Iterable[_Union[_exemplars_pb2.ExemplarHit, _Mapping]]] = ...) -> None: ...

class RememberRequest(_message.Message):
    __slots__ = ("tenant", "identity", "conversation", "turn", "person", "identity_generation", "person_generation")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_GENERATION_FIELD_NUMBER: _ClassVar[int]
    PERSON_GENERATION_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    conversation: str
    turn: Turn
    person: str
    identity_generation: str
    person_generation: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., conversation: _Optional[str] = ..., turn: _Optional[_Union[Turn, _Mapping]] = ..., person: _Optional[str] = ..., identity_generation: _Optional[str] = ..., person_generation: _Optional[str] = ...) -> None: ...

class RememberResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RaiseRiskRequest(_message.Message):
    __slots__ = ("tenant", "identity", "person", "conversation", "id", "kind", "severity")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    person: str
    conversation: str
    id: str
    kind: _common_pb2.RiskKind
    severity: _common_pb2.RiskSeverity
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., person: _Optional[str] = ..., conversation: _Optional[str] = ..., id: _Optional[str] = ..., kind: _Optional[_Union[_common_pb2.RiskKind, str]] = ..., severity: _Optional[_Union[_common_pb2.RiskSeverity, str]] = ...) -> None: ...

class RaiseRiskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTurnsRequest(_message.Message):
    __slots__ = ("tenant", "identity", "person", "conversation", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    person: str
    conversation: str
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., person: _Optional[str] = ..., conversation: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTurnsResponse(_message.Message):
    __slots__ = ("turns", "next_page_token", "damaged")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    next_page_token: str
    damaged: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., damaged: _Optional[_Iterable[str]] = ...) -> None: ...

class PutClipHeader(_message.Message):
    __slots__ = ("tenant", "identity", "person", "conversation", "turn", "kind", "size_bytes")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    person: str
    conversation: str
    turn: str
    kind: ClipKind
    size_bytes: int
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., person: _Optional[str] = ..., conversation: _Optional[str] = ..., turn: _Optional[str] = ..., kind: _Optional[_Union[ClipKind, str]] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class PutClipRequest(_message.Message):
    __slots__ = ("header", "content")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    header: PutClipHeader
    content: bytes
    def __init__(self, header: _Optional[_Union[PutClipHeader, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class PutClipResponse(_message.Message):
    __slots__ = ("clip",)
    CLIP_FIELD_NUMBER: _ClassVar[int]
    clip: Clip
    def __init__(self, clip: _Optional[_Union[Clip, _Mapping]] = ...) -> None: ...

class PutTimingsRequest(_message.Message):
    __slots__ = ("tenant", "identity", "person", "conversation", "turn", "timings_s", "models", "variants", "degraded")
    class TimingsSEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class ModelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class VariantsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_S_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    person: str
    conversation: str
    turn: str
    timings_s: _containers.ScalarMap[str, float]
    models: _containers.ScalarMap[str, str]
    variants: _containers.ScalarMap[str, str]
    degraded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., person: _Optional[str] = ..., conversation: _Optional[str] = ..., turn: _Optional[str] = ..., timings_s: _Optional[_Mapping[str, float]] = ..., models: _Optional[_Mapping[str, str]] = ..., variants: _Optional[_Mapping[str, str]] = ..., degraded: _Optional[_Iterable[str]] = ...) -> None: ...

class PutTimingsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClipRequest(_message.Message):
    __slots__ = ("tenant", "identity", "person", "conversation", "turn", "kind")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    person: str
    conversation: str
    turn: str
    kind: ClipKind
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., person: _Optional[str] = ..., conversation: _Optional[str] = ..., turn: _Optional[str] = ..., kind: _Optional[_Union[ClipKind, str]] = ...) -> None: ...

class GetClipResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...
