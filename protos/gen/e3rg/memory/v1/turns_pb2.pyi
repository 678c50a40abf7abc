from e3rg.memory.v1 import memory_pb2 as _memory_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TurnOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_ORDER_UNSPECIFIED: _ClassVar[TurnOrder]
    TURN_ORDER_NEWEST_FIRST: _ClassVar[TurnOrder]
    TURN_ORDER_OLDEST_FIRST: _ClassVar[TurnOrder]

class TurnGroup(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_GROUP_UNSPECIFIED: _ClassVar[TurnGroup]
    TURN_GROUP_USER_EMOTION: _ClassVar[TurnGroup]
    TURN_GROUP_REPLY_EMOTION: _ClassVar[TurnGroup]
    TURN_GROUP_VARIANT: _ClassVar[TurnGroup]
TURN_ORDER_UNSPECIFIED: TurnOrder
TURN_ORDER_NEWEST_FIRST: TurnOrder
TURN_ORDER_OLDEST_FIRST: TurnOrder
TURN_GROUP_UNSPECIFIED: TurnGroup
TURN_GROUP_USER_EMOTION: TurnGroup
TURN_GROUP_REPLY_EMOTION: TurnGroup
TURN_GROUP_VARIANT: TurnGroup

class TurnFilter(_message.Message):
    __slots__ = ("identity", "user", "conversation", "from_s", "until_s", "user_emotions", "reply_emotions", "stage", "variant", "text")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    FROM_S_FIELD_NUMBER: _ClassVar[int]
    UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    USER_EMOTIONS_FIELD_NUMBER: _ClassVar[int]
    REPLY_EMOTIONS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    identity: str
    user: str
    conversation: str
    from_s: float
    until_s: float
    user_emotions: _containers.RepeatedScalarFieldContainer[str]
    reply_emotions: _containers.RepeatedScalarFieldContainer[str]
    stage: str
    variant: str
    text: str
    def __init__(self, identity: _Optional[str] = ..., user: _Optional[str] = ..., conversation: _Optional[str] = ..., from_s: _Optional[float] = ..., until_s: _Optional[float] = ..., user_emotions: _Optional[_Iterable[str]] = ..., reply_emotions: _Optional[_Iterable[str]] = ..., stage: _Optional[str] = ..., variant: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ("tenant", "identity", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class User(_message.Message):
    __slots__ = ("name", "conversations", "turns", "first_turn_at_s", "last_turn_at_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    FIRST_TURN_AT_S_FIELD_NUMBER: _ClassVar[int]
    LAST_TURN_AT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    conversations: int
    turns: int
    first_turn_at_s: float
    last_turn_at_s: float
    def __init__(self, name: _Optional[str] = ..., conversations: _Optional[int] = ..., turns: _Optional[int] = ..., first_turn_at_s: _Optional[float] = ..., last_turn_at_s: _Optional[float] = ...) -> None: ...

class ListUsersResponse(_message.Message):
    __slots__ = ("users", "next_page_token")
    USERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[User]
    next_page_token: str
    def __init__(self, users: _Optional[_Iterable[_Union[User, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListConversationsRequest(_message.Message):
    __slots__ = ("tenant", "identity", "user", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    user: str
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., user: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class Conversation(_message.Message):
    __slots__ = ("name", "identity", "user", "turns", "first_turn_at_s", "last_turn_at_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    FIRST_TURN_AT_S_FIELD_NUMBER: _ClassVar[int]
    LAST_TURN_AT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    identity: str
    user: str
    turns: int
    first_turn_at_s: float
    last_turn_at_s: float
    def __init__(self, name: _Optional[str] = ..., identity: _Optional[str] = ..., user: _Optional[str] = ..., turns: _Optional[int] = ..., first_turn_at_s: _Optional[float] = ..., last_turn_at_s: _Optional[float] = ...) -> None: ...

class ListConversationsResponse(_message.Message):
    __slots__ = ("conversations", "next_page_token")
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[Conversation]
    next_page_token: str
    def __init__(self, conversations: _Optional[_Iterable[_Union[Conversation, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class QueryTurnsRequest(_message.Message):
    __slots__ = ("tenant", "filter", "order", "page_size", "page_token")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    filter: TurnFilter
    order: TurnOrder
    page_size: int
    page_token: str
    def __init__(self, tenant: _Optional[str] = ..., filter: _Optional[_Union[TurnFilter, _Mapping]] = ..., order: _Optional[_Union[TurnOrder, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class TurnRecord(_message.Message):
    __slots__ = ("turn", "identity", "user", "ratings", "scores")
    class ScoresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TURN_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    RATINGS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    turn: _memory_pb2.Turn
    identity: str
    user: str
    ratings: _containers.RepeatedCompositeFieldContainer[Rating]
    scores: _containers.ScalarMap[str, float]
    def __init__(self, turn: _Optional[_Union[_memory_pb2.Turn, _Mapping]] = ..., identity: _Optional[str] = ..., user: _Optional[str] = ..., ratings: _Optional[_Iterable[_Union[Rating, _Mapping]]] = ..., scores: _Optional[_Mapping[str, float]] = ...) -> None: ...

class QueryTurnsResponse(_message.Message):
    __slots__ = ("turns", "next_page_token")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[TurnRecord]
    next_page_token: str
    def __init__(self, turns: _Optional[_Iterable[_Union[TurnRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CountTurnsRequest(_message.Message):
    __slots__ = ("tenant", "filter", "group", "bucket_s")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BUCKET_S_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    filter: TurnFilter
    group: TurnGroup
    bucket_s: float
    def __init__(self, tenant: _Optional[str] = ..., filter: _Optional[_Union[TurnFilter, _Mapping]] = ..., group: _Optional[_Union[TurnGroup, str]] = ..., bucket_s: _Optional[float] = ...) -> None: ...

class TurnCount(_message.Message):
    __slots__ = ("from_s", "name", "turns")
    FROM_S_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    from_s: float
    name: str
    turns: int
    def __init__(self, from_s: _Optional[float] = ..., name: _Optional[str] = ..., turns: _Optional[int] = ...) -> None: ...

class CountTurnsResponse(_message.Message):
    __slots__ = ("counts",)
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[TurnCount]
    def __init__(self, counts: _Optional[_Iterable[_Union[TurnCount, _Mapping]]] = ...) -> None: ...

class Rating(_message.Message):
    __slots__ = ("rater", "expressiveness", "consistency", "naturalness", "rated_at_s")
    RATER_FIELD_NUMBER: _ClassVar[int]
    EXPRESSIVENESS_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    NATURALNESS_FIELD_NUMBER: _ClassVar[int]
    RATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    rater: str
    expressiveness: int
    consistency: int
    naturalness: int
    rated_at_s: float
    def __init__(self, rater: _Optional[str] = ..., expressiveness: _Optional[int] = ..., consistency: _Optional[int] = ..., naturalness: _Optional[int] = ..., rated_at_s: _Optional[float] = ...) -> None: ...

class RateTurnRequest(_message.Message):
    __slots__ = ("tenant", "identity", "user", "conversation", "turn", "rating")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    RATING_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    user: str
    conversation: str
    turn: str
    rating: Rating
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., user: _Optional[str] = ..., conversation: _Optional[str] = ..., turn: _Optional[str] = ..., rating: _Optional[_Union[Rating, _Mapping]] = ...) -> None: ...

class RateTurnResponse(_message.Message):
    __slots__ = ("rating",)
    RATING_FIELD_NUMBER: _ClassVar[int]
    rating: Rating
    def __init__(self, rating: _Optional[_Union[Rating, _Mapping]] = ...) -> None: ...

class PutScoresRequest(_message.Message):
    __slots__ = ("tenant", "identity", "user", "conversation", "turn", "scores")
    class ScoresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    identity: str
    user: str
    conversation: str
    turn: str
    scores: _containers.ScalarMap[str, float]
    def __init__(self, tenant: _Optional[str] = ..., identity: _Optional[str] = ..., user: _Optional[str] = ..., conversation: _Optional[str] = ..., turn: _Optional[str] = ..., scores: _Optional[_Mapping[str, float]] = ...) -> None: ...

class PutScoresResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SummarizeUsersRequest(_message.Message):
    __slots__ = ("stage", "experiment", "from_s", "until_s")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    FROM_S_FIELD_NUMBER: _ClassVar[int]
    UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    stage: str
    experiment: str
    from_s: float
    until_s: float
    def __init__(self, stage: _Optional[str] = ..., experiment: _Optional[str] = ..., from_s: _Optional[float] = ..., until_s: _Optional[float] = ...) -> None: ...

class Total(_message.Message):
    __slots__ = ("sum", "count")
    SUM_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    sum: float
    count: int
    def __init__(self, sum: _Optional[float] = ..., count: _Optional[int] = ...) -> None: ...

class UserSummary(_message.Message):
    __slots__ = ("user", "variant", "phase", "variants_seen", "turns", "conversations", "degraded_turns", "rating", "timings_s", "scores")
    class TimingsSEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Total
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Total, _Mapping]] = ...) -> None: ...
    class ScoresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Total
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Total, _Mapping]] = ...) -> None: ...
    USER_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_SEEN_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_TURNS_FIELD_NUMBER: _ClassVar[int]
    RATING_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_S_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    user: str
    variant: str
    phase: int
    variants_seen: int
    turns: int
    conversations: int
    degraded_turns: int
    rating: Total
    timings_s: _containers.MessageMap[str, Total]
    scores: _containers.MessageMap[str, Total]
    def __init__(self, user: _Optional[str] = ..., variant: _Optional[str] = ..., phase: _Optional[int] = ..., variants_seen: _Optional[int] = ..., turns: _Optional[int] = ..., conversations: _Optional[int] = ..., degraded_turns: _Optional[int] = ..., rating: _Optional[_Union[Total, _Mapping]] = ..., timings_s: _Optional[_Mapping[str, Total]] = ..., scores: _Optional[_Mapping[str, Total]] = ...) -> None: ...

class SummarizeUsersResponse(_message.Message):
    __slots__ = ("users",)
    USERS_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[UserSummary]
    def __init__(self, users: _Optional[_Iterable[_Union[UserSummary, _Mapping]]] = ...) -> None: ...

class ExportTurnsRequest(_message.Message):
    __slots__ = ("tenant", "filter")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    filter: TurnFilter
    def __init__(self, tenant: _Optional[str] = ..., filter: _Optional[_Union[TurnFilter, _Mapping]] = ...) -> None: ...

class ExportTurnsResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...
