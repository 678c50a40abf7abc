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
    __slots__ = ("card", "styles", "languages", "sample_rate_hz")
    CARD_FIELD_NUMBER: _ClassVar[int]
    STYLES_FIELD_NUMBER: _ClassVar[int]
    LANGUAGES_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    card: _common_pb2.ModelCard
    styles: _containers.RepeatedScalarFieldContainer[str]
    languages: _containers.RepeatedScalarFieldContainer[str]
    sample_rate_hz: int
    def __init__(self, card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ..., styles: _Optional[_Iterable[str]] = ..., languages: _Optional[_Iterable[str]] = ..., sample_rate_hz: _Optional[int] = ...) -> None: ...

class CheckVoiceRequest(_message.Message):
    __slots__ = ("audio",)
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    audio: bytes
    def __init__(self, audio: _Optional[bytes] = ...) -> None: ...

class CheckVoiceResponse(_message.Message):
    __slots__ = ("duration_s",)
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    duration_s: float
    def __init__(self, duration_s: _Optional[float] = ...) -> None: ...

class SpeakHeader(_message.Message):
    __slots__ = ("emotion", "style", "profile", "voices", "fitted_size_bytes")
    EMOTION_FIELD_NUMBER: _ClassVar[int]
    STYLE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    VOICES_FIELD_NUMBER: _ClassVar[int]
    FITTED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    emotion: _common_pb2.Emotion
    style: str
    profile: _common_pb2.Profile
    voices: _containers.RepeatedCompositeFieldContainer[VoiceFile]
    fitted_size_bytes: int
    def __init__(self, emotion: _Optional[_Union[_common_pb2.Emotion, _Mapping]] = ..., style: _Optional[str] = ..., profile: _Optional[_Union[_common_pb2.Profile, _Mapping]] = ..., voices: _Optional[_Iterable[_Union[VoiceFile, _Mapping]]] = ..., fitted_size_bytes: _Optional[int] = ...) -> None: ...

class VoiceFile(_message.Message):
    __slots__ = ("digest", "size_bytes")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    size_bytes: int
    def __init__(self, digest: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class SpeakRequest(_message.Message):
    __slots__ = ("header", "voice", "sentence", "fitted")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    FITTED_FIELD_NUMBER: _ClassVar[int]
    header: SpeakHeader
    voice: bytes
    sentence: str
    fitted: bytes
    def __init__(self, header: _Optional[_Union[SpeakHeader, _Mapping]] = ..., voice: _Optional[bytes] = ..., sentence: _Optional[str] = ..., fitted: _Optional[bytes] = ...) -> None: ...

class VoiceReady(_message.Message):
    __slots__ = ("fit_s", "fitted", "card", "sample_rate_hz")
    FIT_S_FIELD_NUMBER: _ClassVar[int]
    FITTED_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    fit_s: float
    fitted: bytes
    card: _common_pb2.ModelCard
    sample_rate_hz: int
    def __init__(self, fit_s: _Optional[float] = ..., fitted: _Optional[bytes] = ..., card: _Optional[_Union[_common_pb2.ModelCard, _Mapping]] = ..., sample_rate_hz: _Optional[int] = ...) -> None: ...

class SpeechChunk(_message.Message):
    __slots__ = ("samples", "sample_rate_hz", "phonemes")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    PHONEMES_FIELD_NUMBER: _ClassVar[int]
    samples: bytes
    sample_rate_hz: int
    phonemes: _containers.RepeatedCompositeFieldContainer[_common_pb2.Phoneme]
    def __init__(self, samples: _Optional[bytes] = ..., sample_rate_hz: _Optional[int] = ..., phonemes: _Optional[_Iterable[_Union[_common_pb2.Phoneme, _Mapping]]] = ...) -> None: ...

class SentenceEnd(_message.Message):
    __slots__ = ("sentence", "duration_s", "applied")
    class AppliedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    sentence: str
    duration_s: float
    applied: _containers.ScalarMap[str, float]
    def __init__(self, sentence: _Optional[str] = ..., duration_s: _Optional[float] = ..., applied: _Optional[_Mapping[str, float]] = ...) -> None: ...

class SpeakResponse(_message.Message):
    __slots__ = ("ready", "chunk", "sentence_end")
    READY_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_END_FIELD_NUMBER: _ClassVar[int]
    ready: VoiceReady
    chunk: SpeechChunk
    sentence_end: SentenceEnd
    def __init__(self, ready: _Optional[_Union[VoiceReady, _Mapping]] = ..., chunk: _Optional[_Union[SpeechChunk, _Mapping]] = ..., sentence_end: _Optional[_Union[SentenceEnd, _Mapping]] = ...) -> None: ...
