from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetVariantsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Variant(_message.Message):
    __slots__ = ("name", "address", "weight", "shadow", "state", "replicas", "replicas_ready", "models")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_READY_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    weight: float
    shadow: float
    state: str
    replicas: int
    replicas_ready: int
    models: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., weight: _Optional[float] = ..., shadow: _Optional[float] = ..., state: _Optional[str] = ..., replicas: _Optional[int] = ..., replicas_ready: _Optional[int] = ..., models: _Optional[_Iterable[str]] = ...) -> None: ...

class VariantStage(_message.Message):
    __slots__ = ("name", "control", "variants")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    control: str
    variants: _containers.RepeatedCompositeFieldContainer[Variant]
    def __init__(self, name: _Optional[str] = ..., control: _Optional[str] = ..., variants: _Optional[_Iterable[_Union[Variant, _Mapping]]] = ...) -> None: ...

class VariantChange(_message.Message):
    __slots__ = ("version", "at_s", "by", "why", "summary")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    version: int
    at_s: float
    by: str
    why: str
    summary: str
    def __init__(self, version: _Optional[int] = ..., at_s: _Optional[float] = ..., by: _Optional[str] = ..., why: _Optional[str] = ..., summary: _Optional[str] = ...) -> None: ...

class Ramp(_message.Message):
    __slots__ = ("stage", "variant", "weights", "every_s", "turns_min", "next_at_s")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    EVERY_S_FIELD_NUMBER: _ClassVar[int]
    TURNS_MIN_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_S_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    weights: _containers.RepeatedScalarFieldContainer[float]
    every_s: float
    turns_min: int
    next_at_s: float
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ..., weights: _Optional[_Iterable[float]] = ..., every_s: _Optional[float] = ..., turns_min: _Optional[int] = ..., next_at_s: _Optional[float] = ...) -> None: ...

class GuardrailRollback(_message.Message):
    __slots__ = ("stage", "variant", "reason", "at_s")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    reason: str
    at_s: float
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ..., reason: _Optional[str] = ..., at_s: _Optional[float] = ...) -> None: ...

class Experiment(_message.Message):
    __slots__ = ("id", "stage", "hypothesis", "primary", "users_min", "control", "phase", "started_at_s", "ended_at_s", "result")
    ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    HYPOTHESIS_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    USERS_MIN_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    id: str
    stage: str
    hypothesis: str
    primary: str
    users_min: int
    control: str
    phase: int
    started_at_s: float
    ended_at_s: float
    result: str
    def __init__(self, id: _Optional[str] = ..., stage: _Optional[str] = ..., hypothesis: _Optional[str] = ..., primary: _Optional[str] = ..., users_min: _Optional[int] = ..., control: _Optional[str] = ..., phase: _Optional[int] = ..., started_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ..., result: _Optional[str] = ...) -> None: ...

class GetVariantsResponse(_message.Message):
    __slots__ = ("version", "owner", "stages", "history", "problem", "table_json", "ramp", "guardrails", "rollbacks", "experiment", "ended")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    TABLE_JSON_FIELD_NUMBER: _ClassVar[int]
    RAMP_FIELD_NUMBER: _ClassVar[int]
    GUARDRAILS_FIELD_NUMBER: _ClassVar[int]
    ROLLBACKS_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    version: int
    owner: str
    stages: _containers.RepeatedCompositeFieldContainer[VariantStage]
    history: _containers.RepeatedCompositeFieldContainer[VariantChange]
    problem: str
    table_json: str
    ramp: Ramp
    guardrails: _containers.RepeatedCompositeFieldContainer[SetGuardrail]
    rollbacks: _containers.RepeatedCompositeFieldContainer[GuardrailRollback]
    experiment: Experiment
    ended: _containers.RepeatedCompositeFieldContainer[Experiment]
    def __init__(self, version: _Optional[int] = ..., owner: _Optional[str] = ..., stages: _Optional[_Iterable[_Union[VariantStage, _Mapping]]] = ..., history: _Optional[_Iterable[_Union[VariantChange, _Mapping]]] = ..., problem: _Optional[str] = ..., table_json: _Optional[str] = ..., ramp: _Optional[_Union[Ramp, _Mapping]] = ..., guardrails: _Optional[_Iterable[_Union[SetGuardrail, _Mapping]]] = ..., rollbacks: _Optional[_Iterable[_Union[GuardrailRollback, _Mapping]]] = ..., experiment: _Optional[_Union[Experiment, _Mapping]] = ..., ended: _Optional[_Iterable[_Union[Experiment, _Mapping]]] = ...) -> None: ...

class PutVariant(_message.Message):
    __slots__ = ("stage", "variant", "address")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    address: str
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class RemoveVariant(_message.Message):
    __slots__ = ("stage", "variant")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ...) -> None: ...

class SetWeights(_message.Message):
    __slots__ = ("stage", "weights")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STAGE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    weights: _containers.ScalarMap[str, float]
    def __init__(self, stage: _Optional[str] = ..., weights: _Optional[_Mapping[str, float]] = ...) -> None: ...

class SetState(_message.Message):
    __slots__ = ("stage", "variant", "state")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    state: str
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class Promote(_message.Message):
    __slots__ = ("stage", "variant")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ...) -> None: ...

class Rollback(_message.Message):
    __slots__ = ("stage", "variant")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ...) -> None: ...

class SetShadow(_message.Message):
    __slots__ = ("stage", "variant", "share")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    share: float
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ..., share: _Optional[float] = ...) -> None: ...

class StartRamp(_message.Message):
    __slots__ = ("stage", "variant", "weights", "every_s", "turns_min")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    EVERY_S_FIELD_NUMBER: _ClassVar[int]
    TURNS_MIN_FIELD_NUMBER: _ClassVar[int]
    stage: str
    variant: str
    weights: _containers.RepeatedScalarFieldContainer[float]
    every_s: float
    turns_min: int
    def __init__(self, stage: _Optional[str] = ..., variant: _Optional[str] = ..., weights: _Optional[_Iterable[float]] = ..., every_s: _Optional[float] = ..., turns_min: _Optional[int] = ...) -> None: ...

class SetGuardrail(_message.Message):
    __slots__ = ("stage", "on", "window_s", "turns_min", "failed_share_max", "degraded_share_max", "first_chunk_ratio_max")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    WINDOW_S_FIELD_NUMBER: _ClassVar[int]
    TURNS_MIN_FIELD_NUMBER: _ClassVar[int]
    FAILED_SHARE_MAX_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_SHARE_MAX_FIELD_NUMBER: _ClassVar[int]
    FIRST_CHUNK_RATIO_MAX_FIELD_NUMBER: _ClassVar[int]
    stage: str
    on: bool
    window_s: float
    turns_min: int
    failed_share_max: float
    degraded_share_max: float
    first_chunk_ratio_max: float
    def __init__(self, stage: _Optional[str] = ..., on: bool = ..., window_s: _Optional[float] = ..., turns_min: _Optional[int] = ..., failed_share_max: _Optional[float] = ..., degraded_share_max: _Optional[float] = ..., first_chunk_ratio_max: _Optional[float] = ...) -> None: ...

class AcknowledgeRollback(_message.Message):
    __slots__ = ("stage",)
    STAGE_FIELD_NUMBER: _ClassVar[int]
    stage: str
    def __init__(self, stage: _Optional[str] = ...) -> None: ...

class StartExperiment(_message.Message):
    __slots__ = ("id", "stage", "hypothesis", "primary", "users_min")
    ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    HYPOTHESIS_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    USERS_MIN_FIELD_NUMBER: _ClassVar[int]
    id: str
    stage: str
    hypothesis: str
    primary: str
    users_min: int
    def __init__(self, id: _Optional[str] = ..., stage: _Optional[str] = ..., hypothesis: _Optional[str] = ..., primary: _Optional[str] = ..., users_min: _Optional[int] = ...) -> None: ...

class StopExperiment(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ChangeVariantsRequest(_message.Message):
    __slots__ = ("put", "remove", "set", "state", "promote", "rollback", "shadow", "ramp", "guardrail", "acknowledge", "start", "stop", "by", "why", "expected_version")
    PUT_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROMOTE_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    RAMP_FIELD_NUMBER: _ClassVar[int]
    GUARDRAIL_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    put: PutVariant
    remove: RemoveVariant
    set: SetWeights
    state: SetState
    promote: Promote
    rollback: Rollback
    shadow: SetShadow
    ramp: StartRamp
    guardrail: SetGuardrail
    acknowledge: AcknowledgeRollback
    start: StartExperiment
    stop: StopExperiment
    by: str
    why: str
    expected_version: int
    def __init__(self, put: _Optional[_Union[PutVariant, _Mapping]] = ..., remove: _Optional[_Union[RemoveVariant, _Mapping]] = ..., set: _Optional[_Union[SetWeights, _Mapping]] = ..., state: _Optional[_Union[SetState, _Mapping]] = ..., promote: _Optional[_Union[Promote, _Mapping]] = ..., rollback: _Optional[_Union[Rollback, _Mapping]] = ..., shadow: _Optional[_Union[SetShadow, _Mapping]] = ..., ramp: _Optional[_Union[StartRamp, _Mapping]] = ..., guardrail: _Optional[_Union[SetGuardrail, _Mapping]] = ..., acknowledge: _Optional[_Union[AcknowledgeRollback, _Mapping]] = ..., start: _Optional[_Union[StartExperiment, _Mapping]] = ..., stop: _Optional[_Union[StopExperiment, _Mapping]] = ..., by: _Optional[str] = ..., why: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class ChangeVariantsResponse(_message.Message):
    __slots__ = ("version", "summary", "problem")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    version: int
    summary: str
    problem: str
    def __init__(self, version: _Optional[int] = ..., summary: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class CompareVariantsRequest(_message.Message):
    __slots__ = ("experiment", "stage", "from_s", "until_s", "svg")
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    FROM_S_FIELD_NUMBER: _ClassVar[int]
    UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    SVG_FIELD_NUMBER: _ClassVar[int]
    experiment: str
    stage: str
    from_s: float
    until_s: float
    svg: bool
    def __init__(self, experiment: _Optional[str] = ..., stage: _Optional[str] = ..., from_s: _Optional[float] = ..., until_s: _Optional[float] = ..., svg: bool = ...) -> None: ...

class Estimate(_message.Message):
    __slots__ = ("value", "lower", "upper")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    value: float
    lower: float
    upper: float
    def __init__(self, value: _Optional[float] = ..., lower: _Optional[float] = ..., upper: _Optional[float] = ...) -> None: ...

class MetricMean(_message.Message):
    __slots__ = ("metric", "users", "estimate")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    metric: str
    users: int
    estimate: Estimate
    def __init__(self, metric: _Optional[str] = ..., users: _Optional[int] = ..., estimate: _Optional[_Union[Estimate, _Mapping]] = ...) -> None: ...

class ComparedVariant(_message.Message):
    __slots__ = ("name", "turns", "conversations", "users", "excluded_users", "means", "counted_turns", "failed_turns")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_USERS_FIELD_NUMBER: _ClassVar[int]
    MEANS_FIELD_NUMBER: _ClassVar[int]
    COUNTED_TURNS_FIELD_NUMBER: _ClassVar[int]
    FAILED_TURNS_FIELD_NUMBER: _ClassVar[int]
    name: str
    turns: int
    conversations: int
    users: int
    excluded_users: int
    means: _containers.RepeatedCompositeFieldContainer[MetricMean]
    counted_turns: int
    failed_turns: int
    def __init__(self, name: _Optional[str] = ..., turns: _Optional[int] = ..., conversations: _Optional[int] = ..., users: _Optional[int] = ..., excluded_users: _Optional[int] = ..., means: _Optional[_Iterable[_Union[MetricMean, _Mapping]]] = ..., counted_turns: _Optional[int] = ..., failed_turns: _Optional[int] = ...) -> None: ...

class Difference(_message.Message):
    __slots__ = ("variant", "metric", "primary", "users", "control_users", "users_needed", "estimate", "verdict")
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_USERS_FIELD_NUMBER: _ClassVar[int]
    USERS_NEEDED_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    variant: str
    metric: str
    primary: bool
    users: int
    control_users: int
    users_needed: int
    estimate: Estimate
    verdict: str
    def __init__(self, variant: _Optional[str] = ..., metric: _Optional[str] = ..., primary: bool = ..., users: _Optional[int] = ..., control_users: _Optional[int] = ..., users_needed: _Optional[int] = ..., estimate: _Optional[_Union[Estimate, _Mapping]] = ..., verdict: _Optional[str] = ...) -> None: ...

class PhaseVariant(_message.Message):
    __slots__ = ("name", "share", "users", "mean")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    name: str
    share: float
    users: int
    mean: MetricMean
    def __init__(self, name: _Optional[str] = ..., share: _Optional[float] = ..., users: _Optional[int] = ..., mean: _Optional[_Union[MetricMean, _Mapping]] = ...) -> None: ...

class ComparedPhase(_message.Message):
    __slots__ = ("number", "variants", "p_value", "mismatch")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    P_VALUE_FIELD_NUMBER: _ClassVar[int]
    MISMATCH_FIELD_NUMBER: _ClassVar[int]
    number: int
    variants: _containers.RepeatedCompositeFieldContainer[PhaseVariant]
    p_value: float
    mismatch: bool
    def __init__(self, number: _Optional[int] = ..., variants: _Optional[_Iterable[_Union[PhaseVariant, _Mapping]]] = ..., p_value: _Optional[float] = ..., mismatch: bool = ...) -> None: ...

class CompareVariantsResponse(_message.Message):
    __slots__ = ("experiment", "stage", "control", "variants", "differences", "phases", "level", "users_left_out", "svg")
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    USERS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    SVG_FIELD_NUMBER: _ClassVar[int]
    experiment: Experiment
    stage: str
    control: str
    variants: _containers.RepeatedCompositeFieldContainer[ComparedVariant]
    differences: _containers.RepeatedCompositeFieldContainer[Difference]
    phases: _containers.RepeatedCompositeFieldContainer[ComparedPhase]
    level: float
    users_left_out: int
    svg: str
    def __init__(self, experiment: _Optional[_Union[Experiment, _Mapping]] = ..., stage: _Optional[str] = ..., control: _Optional[str] = ..., variants: _Optional[_Iterable[_Union[ComparedVariant, _Mapping]]] = ..., differences: _Optional[_Iterable[_Union[Difference, _Mapping]]] = ..., phases: _Optional[_Iterable[_Union[ComparedPhase, _Mapping]]] = ..., level: _Optional[float] = ..., users_left_out: _Optional[int] = ..., svg: _Optional[str] = ...) -> None: ...
