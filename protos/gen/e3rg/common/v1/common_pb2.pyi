from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Speaker(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPEAKER_UNSPECIFIED: _ClassVar[Speaker]
    SPEAKER_USER: _ClassVar[Speaker]
    SPEAKER_AVATAR: _ClassVar[Speaker]

class Modality(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODALITY_UNSPECIFIED: _ClassVar[Modality]
    MODALITY_TEXT: _ClassVar[Modality]
    MODALITY_AUDIO: _ClassVar[Modality]
    MODALITY_VIDEO: _ClassVar[Modality]

class RiskKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RISK_KIND_UNSPECIFIED: _ClassVar[RiskKind]
    RISK_KIND_SUICIDE: _ClassVar[RiskKind]
    RISK_KIND_SELF_HARM: _ClassVar[RiskKind]
    RISK_KIND_HARM_TO_OTHERS: _ClassVar[RiskKind]
    RISK_KIND_VIOLENCE: _ClassVar[RiskKind]
    RISK_KIND_CHILD: _ClassVar[RiskKind]
    RISK_KIND_MEDICAL: _ClassVar[RiskKind]

class RiskSeverity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RISK_SEVERITY_UNSPECIFIED: _ClassVar[RiskSeverity]
    RISK_SEVERITY_LOW: _ClassVar[RiskSeverity]
    RISK_SEVERITY_MEDIUM: _ClassVar[RiskSeverity]
    RISK_SEVERITY_HIGH: _ClassVar[RiskSeverity]

class RiskSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RISK_SOURCE_UNSPECIFIED: _ClassVar[RiskSource]
    RISK_SOURCE_WORDS: _ClassVar[RiskSource]
    RISK_SOURCE_CLASSIFIER: _ClassVar[RiskSource]
    RISK_SOURCE_VOTER: _ClassVar[RiskSource]
    RISK_SOURCE_EARLIER: _ClassVar[RiskSource]
    RISK_SOURCE_AGAIN: _ClassVar[RiskSource]
SPEAKER_UNSPECIFIED: Speaker
SPEAKER_USER: Speaker
SPEAKER_AVATAR: Speaker
MODALITY_UNSPECIFIED: Modality
MODALITY_TEXT: Modality
MODALITY_AUDIO: Modality
MODALITY_VIDEO: Modality
RISK_KIND_UNSPECIFIED: RiskKind
RISK_KIND_SUICIDE: RiskKind
RISK_KIND_SELF_HARM: RiskKind
RISK_KIND_HARM_TO_OTHERS: RiskKind
RISK_KIND_VIOLENCE: RiskKind
RISK_KIND_CHILD: RiskKind
RISK_KIND_MEDICAL: RiskKind
RISK_SEVERITY_UNSPECIFIED: RiskSeverity
RISK_SEVERITY_LOW: RiskSeverity
RISK_SEVERITY_MEDIUM: RiskSeverity
RISK_SEVERITY_HIGH: RiskSeverity
RISK_SOURCE_UNSPECIFIED: RiskSource
RISK_SOURCE_WORDS: RiskSource
RISK_SOURCE_CLASSIFIER: RiskSource
RISK_SOURCE_VOTER: RiskSource
RISK_SOURCE_EARLIER: RiskSource
RISK_SOURCE_AGAIN: RiskSource

class Emotion(_message.Message):
    __slots__ = ("label", "face_class", "intensity", "ontology_hash")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    FACE_CLASS_FIELD_NUMBER: _ClassVar[int]
    INTENSITY_FIELD_NUMBER: _ClassVar[int]
    ONTOLOGY_HASH_FIELD_NUMBER: _ClassVar[int]
    label: str
    face_class: str
    intensity: float
    ontology_hash: str
    def __init__(self, label: _Optional[str] = ..., face_class: _Optional[str] = ..., intensity: _Optional[float] = ..., ontology_hash: _Optional[str] = ...) -> None: ...

class Profile(_message.Message):
    __slots__ = ("name", "age", "gender", "timbre", "language", "about", "speaking_style")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    GENDER_FIELD_NUMBER: _ClassVar[int]
    TIMBRE_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    SPEAKING_STYLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    age: str
    gender: str
    timbre: str
    language: str
    about: str
    speaking_style: str
    def __init__(self, name: _Optional[str] = ..., age: _Optional[str] = ..., gender: _Optional[str] = ..., timbre: _Optional[str] = ..., language: _Optional[str] = ..., about: _Optional[str] = ..., speaking_style: _Optional[str] = ...) -> None: ...

class Utterance(_message.Message):
    __slots__ = ("speaker", "text", "emotion")
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    EMOTION_FIELD_NUMBER: _ClassVar[int]
    speaker: Speaker
    text: str
    emotion: str
    def __init__(self, speaker: _Optional[_Union[Speaker, str]] = ..., text: _Optional[str] = ..., emotion: _Optional[str] = ...) -> None: ...

class Phoneme(_message.Message):
    __slots__ = ("symbol", "viseme", "start_s", "duration_s")
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    VISEME_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    symbol: str
    viseme: str
    start_s: float
    duration_s: float
    def __init__(self, symbol: _Optional[str] = ..., viseme: _Optional[str] = ..., start_s: _Optional[float] = ..., duration_s: _Optional[float] = ...) -> None: ...

class ModelCard(_message.Message):
    __slots__ = ("backend", "model", "digest", "ontology_hash", "prompt_version")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ONTOLOGY_HASH_FIELD_NUMBER: _ClassVar[int]
    PROMPT_VERSION_FIELD_NUMBER: _ClassVar[int]
    backend: str
    model: str
    digest: str
    ontology_hash: str
    prompt_version: str
    def __init__(self, backend: _Optional[str] = ..., model: _Optional[str] = ..., digest: _Optional[str] = ..., ontology_hash: _Optional[str] = ..., prompt_version: _Optional[str] = ...) -> None: ...

class Risk(_message.Message):
    __slots__ = ("kind", "severity", "confidence", "source")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    kind: RiskKind
    severity: RiskSeverity
    confidence: float
    source: RiskSource
    def __init__(self, kind: _Optional[_Union[RiskKind, str]] = ..., severity: _Optional[_Union[RiskSeverity, str]] = ..., confidence: _Optional[float] = ..., source: _Optional[_Union[RiskSource, str]] = ...) -> None: ...

class EarlierRisk(_message.Message):
    __slots__ = ("kind", "severity", "age_s")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    kind: RiskKind
    severity: RiskSeverity
    age_s: float
    def __init__(self, kind: _Optional[_Union[RiskKind, str]] = ..., severity: _Optional[_Union[RiskSeverity, str]] = ..., age_s: _Optional[float] = ...) -> None: ...
