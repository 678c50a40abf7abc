"""What is remembered: identities, emotion banks and turns as dataclasses. Where it is kept, `store.py` says."""

from dataclasses import dataclass
from enum import StrEnum

BANK_DEFAULT = "default"
"""The emotion bank that is always there: all that the wheel has."""


class Use(StrEnum):
    """What a person can allow."""

    ANIMATE_FACE = "animate_face"
    CLONE_VOICE = "clone_voice"
    KEEP_TURNS = "keep_turns"


class ReferenceKind(StrEnum):
    """Which reference of an identity."""

    PORTRAIT = "portrait"
    VOICE = "voice"


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
    """

    name: str
    age: str
    gender: str
    timbre: str
    language: str
    about: str = ""


@dataclass(frozen=True)
class Consent:
    """Who allowed what: `granted_on` is YYYY-MM-DD, `uses` are values of `Use`."""

    granted_by: str
    granted_on: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """A stored file: `digest` is the SHA-256 (hex) of its bytes."""

    digest: str
    size_bytes: int


@dataclass(frozen=True)
class Identity:
    """An avatar's identity, as it is kept."""

    id: str
    profile: Profile
    portrait: Reference
    voice: Reference
    consent: Consent
    emotion_bank: str = BANK_DEFAULT


@dataclass(frozen=True)
class NewIdentity:
    """An identity to be added, with the content of its references: `portrait` PNG or JPEG, `voice` WAV."""

    id: str
    profile: Profile
    consent: Consent
    portrait: bytes
    voice: bytes
    emotion_bank: str = BANK_DEFAULT


@dataclass(frozen=True)
class EmotionBank:
    """What an identity can show: face classes and voice styles of the wheel."""

    name: str
    face_classes: tuple[str, ...]
    voice_styles: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """What was said and how it felt; the emotions are labels of the wheel."""

    id: str
    user_text: str
    user_emotion: str
    reply_text: str
    reply_emotion: str


@dataclass(frozen=True)
class Derivation:
    """What a model made of a reference: which reference it was, and the SHA-256 (hex) of it and of the model."""

    kind: ReferenceKind
    reference_digest: str
    model_digest: str


@dataclass(frozen=True)
class Recollection:
    """What is recalled of an identity; `turns` are the last of a conversation, oldest first."""

    identity: Identity
    emotion_bank: EmotionBank
    turns: tuple[Turn, ...]
