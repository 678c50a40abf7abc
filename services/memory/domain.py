"""Kept facts as dataclasses: identities, conversations, examples, erasures."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

BANK_DEFAULT = "default"
"""The emotion bank that is always there: all of the ontology."""


def digest_of(content: bytes) -> str:
    """Return the SHA-256 (hex) of a content."""
    return hashlib.sha256(content).hexdigest()


TENANT_READY = "default"
"""The tenant of the identities that come with the project."""


class Use(StrEnum):
    """Use that a permission allows."""

    ANIMATE_FACE = "animate_face"
    CLONE_VOICE = "clone_voice"
    INFER_EMOTION = "infer_emotion"
    KEEP_TURNS = "keep_turns"
    RESEARCH_EXPORT = "research_export"


class ReferenceKind(StrEnum):
    """Kind of a reference file."""

    PORTRAIT = "portrait"
    VOICE = "voice"
    FILM = "film"


USES = {
    ReferenceKind.PORTRAIT: Use.ANIMATE_FACE,
    ReferenceKind.VOICE: Use.CLONE_VOICE,
    ReferenceKind.FILM: Use.ANIMATE_FACE,
}
"""The permission without which a reference is not handed out."""


@dataclass(frozen=True)
class Profile:
    """Profile of an avatar: `timbre` is the register of its voice, `language` ISO 639-1; see the message."""

    name: str
    age: str
    gender: str
    timbre: str
    language: str
    about: str = ""
    speaking_style: str = ""


@dataclass(frozen=True)
class Grant:
    """A permission: dates are YYYY-MM-DD, `use` is a value of `Use`; `until` is its last day, empty for no end."""

    use: str
    granted_by: str
    granted_on: str
    purpose: str = ""
    until: str = ""


@dataclass(frozen=True)
class Reference:
    """A reference file of an identity: `digest` is the SHA-256 (hex) of its bytes, `since` its first version."""

    digest: str
    size_bytes: int
    kind: ReferenceKind
    since: int = 1


@dataclass(frozen=True)
class File:
    """A reference file to be kept."""

    kind: ReferenceKind
    content: bytes

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return len(self.content)


@dataclass(frozen=True)
class Identity:
    """An avatar's identity at one version, written at the Unix time `changed_at_s`.

    `id` is its name in its tenant, `generation` 32 hex digits that no other addition of this name has. The first
    portrait among the references is its face; there is one grant for each use.
    """

    id: str
    profile: Profile
    references: tuple[Reference, ...]
    grants: tuple[Grant, ...]
    emotion_bank: str
    version: int
    changed_at_s: float
    generation: str


@dataclass(frozen=True)
class NewIdentity:
    """An identity to be added: at least a portrait and a voice."""

    id: str
    profile: Profile
    grants: tuple[Grant, ...]
    files: tuple[File, ...]
    emotion_bank: str = BANK_DEFAULT


@dataclass(frozen=True)
class Change:
    """A change of an identity at version `if_version`; None leaves a field as it is.

    `removed` are digests of reference files to remove, with the data derived from them; `added` are new files.
    """

    if_version: int
    profile: Profile | None = None
    grants: tuple[Grant, ...] | None = None
    emotion_bank: str | None = None
    removed: tuple[str, ...] = ()
    added: tuple[File, ...] = ()


@dataclass(frozen=True)
class EmotionBank:
    """Face classes and voice styles of the ontology that an identity can show."""

    name: str
    face_classes: tuple[str, ...]
    voice_styles: tuple[str, ...]


class Generator(StrEnum):
    """A generator with emotional references: a voice by style, a face by class."""

    VOICE = "voice"
    FACE = "face"


GENERATOR_USES = {Generator.VOICE: Use.CLONE_VOICE, Generator.FACE: Use.ANIMATE_FACE}
"""The permission that an identity's own emotional reference needs."""


@dataclass(frozen=True)
class EmotionReference:
    """An emotional reference for the emotion `name`; `own`: it belongs to the identity, not to its tenant."""

    generator: Generator
    name: str
    digest: str
    size_bytes: int
    media_type: str
    own: bool


class ClipKind(StrEnum):
    """Kind of a clip."""

    SPEECH = "speech"
    VIDEO = "video"


CLIP_USES = {
    ClipKind.SPEECH: frozenset({Use.CLONE_VOICE}),
    ClipKind.VIDEO: frozenset({Use.CLONE_VOICE, Use.ANIMATE_FACE}),
}
"""The permissions without which a clip, which shows a person's likeness, is not handed out."""


@dataclass(frozen=True)
class Clip:
    """Generated speech or video of a turn: `digest` is the SHA-256 (hex) of its bytes."""

    kind: ClipKind
    digest: str
    size_bytes: int


@dataclass(frozen=True)
class TurnVote:
    """The vote of one model: the label it chose, its weight in the decision, and its latency."""

    voter: str
    label: str
    weight: float = 0.0
    latency_s: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """How a turn went: seconds by stage, who served it in the end, and what it went on without."""

    timings_s: dict[str, float]
    models: dict[str, str] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True)
class TurnDelivery:
    """Delivery of the reply's emotion: who decided it, intensity, voice style and face class."""

    decided_by: str = ""
    intensity: float = 0.0
    voice_style: str = ""
    face_class: str = ""


@dataclass(frozen=True)
class Turn:
    """A turn of a conversation, kept at the Unix time `said_at_s`; see the message of the same name.

    `id` is unique in its conversation, `user_intensity` 0 to 1, `vote_record` as the panel serialises it; `clips` and
    `conversation` are filled when it is read.
    """

    __pydantic_config__: ClassVar[Any] = {"ser_json_bytes": "hex", "val_json_bytes": "hex"}

    id: str
    user_text: str
    user_emotion: str
    reply_text: str
    reply_emotion: str
    user_intensity: float = 0.0
    vote_record: bytes = b""
    models: dict[str, str] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)
    votes: tuple[TurnVote, ...] = ()
    delivery: TurnDelivery = TurnDelivery()
    timings_s: dict[str, float] = field(default_factory=dict)
    said_at_s: float = 0.0
    clips: tuple[Clip, ...] = ()
    conversation: str = ""
    experiment: str = ""
    phase: int = 0
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConversationKey:
    """Names that tell a conversation from others; no user is one who is known in this conversation only."""

    identity: str
    user: str
    conversation: str


@dataclass(frozen=True)
class Trajectory:
    """The mood of a conversation, in which older turns count less; see the message of the same name."""

    label: str
    weights: dict[str, float]
    valence: float
    arousal: float
    valence_change: float
    half_life_s: float


@dataclass(frozen=True)
class Sought:
    """A search for what is like `text`: at least of the cosine `similarity_min`, not older than `age_max_s` (0: any).

    At most `hits_max` turns, or examples where only those are searched; `examples_max` examples beside turns.
    `without` are ids of turns to leave out of `here`, the conversation that is going on; empty means the one searched.
    """

    text: str
    hits_max: int = 4
    examples_max: int = 0
    similarity_min: float = 0.0
    age_max_s: float = 0.0
    user_emotions: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    here: str = ""


@dataclass(frozen=True)
class Hit:
    """A turn that was found. `turns_ago` is 1 for the last of the conversation that is going on, 0 in another one."""

    turn: Turn
    similarity: float
    turns_ago: int = 0


@dataclass(frozen=True)
class Example:
    """A solved case: a message, its emotion, a good reply; `id` is filled when it is kept."""

    user_text: str
    user_emotion: str
    reply_text: str
    id: str = ""


@dataclass(frozen=True)
class ExampleHit:
    """An example that was found."""

    exemplar: Example
    similarity: float


@dataclass(frozen=True)
class Found:
    """The turns and examples that a search found, the most similar first."""

    hits: tuple[Hit, ...] = ()
    examples: tuple[ExampleHit, ...] = ()


class RiskKind(StrEnum):
    """Danger that a conversation spoke of."""

    SUICIDE = "suicide"
    SELF_HARM = "self_harm"
    HARM_TO_OTHERS = "harm_to_others"
    VIOLENCE = "violence"
    CHILD = "child"
    MEDICAL = "medical"


class RiskSeverity(StrEnum):
    """Urgency of a risk."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True)
class Risk:
    """A risk that a conversation raised; its id tells a retry from another risk."""

    id: str
    kind: RiskKind
    severity: RiskSeverity
    raised_at_s: float


@dataclass(frozen=True)
class EarlierRisk:
    """A risk that a conversation raised `age_s` seconds ago."""

    kind: RiskKind
    severity: RiskSeverity
    age_s: float


@dataclass(frozen=True)
class Recollection:
    """An identity with the last turns of a conversation, oldest first.

    `variants` served the conversation's last turn, `assigned` the user's first turn of the experiment. `stale_s` is
    above 0 when the database is away: the age of what is told. `person_generation` tells a user from an earlier one of
    the same name; it is empty for a user who is not known yet.
    """

    identity: Identity
    emotion_bank: EmotionBank
    turns: tuple[Turn, ...]
    trajectory: Trajectory
    stale_s: float = 0.0
    person_generation: str = ""
    ontology_hash: str = ""
    variants: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, str] = field(default_factory=dict)
    risks: tuple[EarlierRisk, ...] = ()


@dataclass(frozen=True)
class Retention:
    """Days that things are kept; 0 for ever, or as long as what they belong to."""

    turns_days: int = 0
    clips_days: int = 0
    derived_days: int = 0
    audits_days: int = 0


@dataclass(frozen=True)
class Erased:
    """Count of erased rows of a kind, and the bytes of their objects."""

    kind: str
    objects: int
    size_bytes: int


@dataclass(frozen=True)
class Audit:
    """The record of an erasure. `done_at_s` is 0 while objects are left; times are Unix time."""

    id: str
    what: str
    asked_by: str
    begun_at_s: float
    done_at_s: float = 0.0
    counts: tuple[Erased, ...] = ()
    caches_gone_by_s: float = 0.0


@dataclass(frozen=True)
class Card:
    """The store: its engines, the sentence embedding, and the ontology."""

    backend: str
    model: str
    digest: str
    ontology_hash: str


@dataclass(frozen=True)
class Store:
    """The store's card, and why it did not answer when it was asked last; empty when it did."""

    card: Card
    problem: str


@dataclass(frozen=True)
class Rating:
    """A rating of a turn; each scale is 1 (poor) to 5 (excellent)."""

    rater: str
    expressiveness: int
    consistency: int
    naturalness: int
    rated_at_s: float = 0.0


@dataclass(frozen=True)
class TurnRecord:
    """A turn with its identity, its user, its ratings and its automatic scores by name."""

    turn: Turn
    identity: str
    user: str
    ratings: tuple[Rating, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)


class TurnOrder(StrEnum):
    """Order of a list of turns; unspecified is the newest first."""

    UNSPECIFIED = "unspecified"
    NEWEST_FIRST = "newest_first"
    OLDEST_FIRST = "oldest_first"


class TurnGroup(StrEnum):
    """Property that turns are counted by."""

    USER_EMOTION = "user_emotion"
    REPLY_EMOTION = "reply_emotion"
    VARIANT = "variant"


@dataclass(frozen=True)
class TurnFilter:
    """Filter of turns; see the message of the same name."""

    identity: str = ""
    user: str = ""
    conversation: str = ""
    from_s: float = 0.0
    until_s: float = 0.0
    user_emotions: tuple[str, ...] = ()
    reply_emotions: tuple[str, ...] = ()
    stage: str = ""
    variant: str = ""
    text: str = ""


@dataclass(frozen=True)
class SummaryFilter:
    """Filter of turns that are summarised by user and variant of `stage`; see the request."""

    stage: str
    experiment: str = ""
    from_s: float = 0.0
    until_s: float = 0.0


@dataclass(frozen=True)
class Total:
    """The sum of so many values."""

    sum: float = 0.0
    count: int = 0


@dataclass(frozen=True)
class UserSummary:
    """The turns of a user with a variant; see the message of the same name."""

    user: str
    variant: str
    phase: int
    variants_seen: int
    turns: int
    conversations: int
    degraded_turns: int
    rating: Total
    timings_s: dict[str, Total]
    scores: dict[str, Total]
