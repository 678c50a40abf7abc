"""What is remembered, as dataclasses: identities, what was said, what was erased. `keys.py` says where it is kept."""

from dataclasses import dataclass, field
from enum import StrEnum

BANK_DEFAULT = "default"
"""The emotion bank that is always there: all that the wheel has."""


class Use(StrEnum):
    """What a person can allow."""

    ANIMATE_FACE = "animate_face"
    CLONE_VOICE = "clone_voice"
    INFER_EMOTION = "infer_emotion"
    KEEP_TURNS = "keep_turns"


class ReferenceKind(StrEnum):
    """What a file of an identity is."""

    PORTRAIT = "portrait"
    VOICE = "voice"
    FILM = "film"


USES = {
    ReferenceKind.PORTRAIT: Use.ANIMATE_FACE,
    ReferenceKind.VOICE: Use.CLONE_VOICE,
    ReferenceKind.FILM: Use.ANIMATE_FACE,
}
"""What each file is for: without this permission it is not lent."""


@dataclass(frozen=True)
class Profile:
    """Who an avatar is.

    Attributes:
        name: As spoken ("Anna").
        age: child, young, middle-aged or elderly.
        gender: female or male.
        timbre: Register of the voice: high, mid or low.
        language: ISO 639-1 ("en").
        about: One sentence for people; may be empty.
        speaking_style: How it talks, in a few words; may be empty.
    """

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
    """A file of an identity: `digest` is the SHA-256 (hex) of its bytes, `since` the version that it came with."""

    digest: str
    size_bytes: int
    kind: ReferenceKind
    since: int = 1


@dataclass(frozen=True)
class File:
    """A file of an identity that is to be kept."""

    kind: ReferenceKind
    content: bytes


@dataclass(frozen=True)
class Identity:
    """An avatar's identity, as it is kept.

    Attributes:
        id: Its name in its tenant.
        profile: Who it is.
        references: Its files; the first portrait is its face.
        grants: What was allowed, one for each use.
        emotion_bank: Name of what it can show.
        version: 1 when it was added; one more with each change.
        changed_at_s: When this version was written, Unix time; for people.
        generation: Which addition of this id it is: 32 hex digits that no other addition has.
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
    """What shall be different of an identity that is at version `if_version`; None leaves it.

    `removed` are digests of files that go, with what was derived from them; `added` come in addition.
    """

    if_version: int
    profile: Profile | None = None
    grants: tuple[Grant, ...] | None = None
    emotion_bank: str | None = None
    removed: tuple[str, ...] = ()
    added: tuple[File, ...] = ()


@dataclass(frozen=True)
class EmotionBank:
    """What an identity can show: face classes and voice styles of the wheel."""

    name: str
    face_classes: tuple[str, ...]
    voice_styles: tuple[str, ...]


class Generator(StrEnum):
    """What has emotional references: a voice by style, a face by class."""

    VOICE = "voice"
    FACE = "face"


@dataclass(frozen=True)
class EmotionReference:
    """What shows a generator the emotion `name`; `own`: the identity has it for itself, not from its tenant."""

    generator: Generator
    name: str
    digest: str
    size_bytes: int
    media_type: str
    own: bool


class ClipKind(StrEnum):
    """What a clip is."""

    SPEECH = "speech"
    VIDEO = "video"


CLIP_USES = {
    ClipKind.SPEECH: frozenset({Use.CLONE_VOICE}),
    ClipKind.VIDEO: frozenset({Use.CLONE_VOICE, Use.ANIMATE_FACE}),
}
"""What shows a person's likeness is handed out only while they allow that."""


@dataclass(frozen=True)
class Clip:
    """Generated speech or video of a turn: `digest` is the SHA-256 (hex) of its bytes."""

    kind: ClipKind
    digest: str
    size_bytes: int


@dataclass(frozen=True)
class Turn:
    """What was said and how it felt.

    Attributes:
        id: Unique in its conversation.
        user_text: What the user said.
        user_emotion: A label of the wheel.
        reply_text: What the avatar said.
        reply_emotion: A label of the wheel.
        user_intensity: 0 to 1.
        vote_record: How the panel decided: a serialised message of the panel's, hex in the store.
        variants: Which variant of which service took part.
        timings_s: Seconds that each stage took.
        said_at_s: When it was kept, Unix time, by the memory's clock.
        clips: What was kept of its speech and video; filled when it is read.
        conversation: Filled when it is read.
    """

    id: str
    user_text: str
    user_emotion: str
    reply_text: str
    reply_emotion: str
    user_intensity: float = 0.0
    vote_record: str = ""
    variants: dict[str, str] = field(default_factory=dict)
    timings_s: dict[str, float] = field(default_factory=dict)
    said_at_s: float = 0.0
    clips: tuple[Clip, ...] = ()
    conversation: str = ""


@dataclass(frozen=True)
class Recalled:
    """Who was recalled for a turn, by generation; empty is anybody of that name."""

    identity: str = ""
    person: str = ""


ANYBODY = Recalled()


@dataclass(frozen=True)
class Trajectory:
    """How a conversation felt, older turns counting less; see the message of the same name."""

    label: str
    weights: dict[str, float]
    valence: float
    arousal: float
    valence_change: float
    half_life_s: float


@dataclass(frozen=True)
class Sought:
    """Which turns to find.

    Attributes:
        text: What they shall be like.
        hits_max: At most so many.
        similarity_min: Only those at least so like it, -1 to 1.
        age_max_s: Only those not older; 0 for all.
        user_emotions: Only those in which the user felt one of these; empty for all.
        without: Ids of turns of the conversation `here` to leave out.
        here: The conversation that is going on; empty for the one that is searched.
    """

    text: str
    hits_max: int = 4
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
    turns_ago: int


@dataclass(frozen=True)
class Exemplar:
    """An example of an answer; `id` is filled when it is kept."""

    user_text: str
    user_emotion: str
    reply_text: str
    id: str = ""


@dataclass(frozen=True)
class ExemplarHit:
    """An example that was found."""

    exemplar: Exemplar
    similarity: float


@dataclass(frozen=True)
class Recollection:
    """What is recalled of an identity; `turns` are the last of a conversation, oldest first.

    `stale_s` is above 0 when the store is away and this is what was known so many seconds ago. `person_generation`
    tells one person from an earlier one of the name; it is empty for somebody who is not known yet. `damaged` tells
    what is wrong with each turn that was left out: a text that names the object.
    """

    identity: Identity
    emotion_bank: EmotionBank
    turns: tuple[Turn, ...]
    trajectory: Trajectory
    stale_s: float = 0.0
    person_generation: str = ""
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True)
class Retention:
    """Days that things are kept; 0 for ever, or as long as what they belong to."""

    turns_days: int = 0
    clips_days: int = 0
    derived_days: int = 0
    audits_days: int = 0


@dataclass(frozen=True)
class Erased:
    """How much of a kind was erased."""

    kind: str
    objects: int
    size_bytes: int


@dataclass(frozen=True)
class Audit:
    """The record of an erasure. `done_at_s` is 0 while it is under way; times are Unix time."""

    id: str
    what: str
    asked_by: str
    begun_at_s: float
    done_at_s: float = 0.0
    counts: tuple[Erased, ...] = ()
    caches_gone_by_s: float = 0.0
