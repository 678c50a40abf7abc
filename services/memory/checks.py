"""What may be kept: the rules for names, profiles, consents, references, banks and turns.

Each check raises `InvalidRequest`, which names the field, the value and what would be right.
"""

import re
from collections.abc import Collection
from datetime import date

import emotions
from services.common.errors import InvalidRequest, TooLarge
from services.memory.domain import Consent, EmotionBank, NewIdentity, Profile, ReferenceKind, Turn, Use

AGES = ("child", "young", "middle-aged", "elderly")
GENDERS = ("female", "male")
TIMBRES = ("high", "mid", "low")

REFERENCE_BYTES_MAX = 16 * 2**20
"""Largest portrait or voice recording."""

DERIVED_BYTES_MAX = 2**20
"""Most of what a model derived from a reference."""

NAME_CHARS_MAX = 100
"""Longest name of a person."""

ABOUT_CHARS_MAX = 500
"""Longest description of a person."""

TEXT_CHARS_MAX = 32_000
"""Longest text of one side of a turn: half an hour of fluent speech, transcribed."""

# `\Z`, not `$`: the latter lets a trailing newline through. ASCII classes: look-alike letters are other names.
_ID = re.compile(r"[a-z][a-z0-9-]{0,62}\Z")
_HANDLE = re.compile(r"[A-Za-z0-9-]{1,63}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_LANGUAGE = re.compile(r"[a-z]{2}\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_SHOWN_CHARS_MAX = 80


def check_id(field: str, value: str) -> None:
    """Checks the id of an identity or the name of an emotion bank."""
    if not _ID.match(value):
        raise InvalidRequest(
            field, f"{_show(value)} is not a name; use 1 to 63 lower-case letters a-z, digits, hyphens, first a letter"
        )


def check_digest(field: str, value: str) -> None:
    """Checks a SHA-256."""
    if not _DIGEST.match(value):
        raise InvalidRequest(field, f"{_show(value)} is not a SHA-256; send 64 digits 0-9 a-f")


def check_derived(content: bytes) -> None:
    """Checks the size of what a model derived."""
    if not 1 <= len(content) <= DERIVED_BYTES_MAX:
        raise InvalidRequest("content", f"{len(content)} bytes; send 1 to {DERIVED_BYTES_MAX}")


def check_handle(field: str, value: str) -> None:
    """Checks the name of a conversation or a turn."""
    if not _HANDLE.match(value):
        raise InvalidRequest(field, f"{_show(value)} is not a name; use 1 to 63 letters A-Z a-z, digits, hyphens")


def check_new(identity: NewIdentity) -> None:
    """Checks an identity that is to be added, all but the existence of its emotion bank."""
    check_id("header.id", identity.id)
    _check_profile(identity.profile)
    _check_consent(identity.consent)
    check_id("header.emotion_bank", identity.emotion_bank)
    check_reference(ReferenceKind.PORTRAIT, identity.portrait)
    check_reference(ReferenceKind.VOICE, identity.voice)


def check_reference(kind: ReferenceKind, content: bytes) -> None:
    """Checks that a reference is there, is not too large and begins as its format does.

    Whether there is a usable face or voice in it is for the services that use it to say.
    """
    wanted = "a PNG or JPEG file" if kind is ReferenceKind.PORTRAIT else "a WAV file"
    if not content:
        raise InvalidRequest(kind.value, f"it is missing (0 bytes); send {wanted}")
    if len(content) > REFERENCE_BYTES_MAX:
        raise TooLarge(kind.value, f"it has {len(content)} bytes; send at most {REFERENCE_BYTES_MAX} (16 MiB)")
    if kind is ReferenceKind.PORTRAIT:
        known = content.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"))
    else:
        known = content[:4] == b"RIFF" and content[8:12] == b"WAVE"
    if not known:
        raise InvalidRequest(kind.value, f"its {len(content)} bytes begin with {content[:12]!r}; send {wanted}")


def check_bank(bank: EmotionBank) -> None:
    """Checks that a bank has something to show and that the wheel knows all of it."""
    check_id("emotion_bank.name", bank.name)
    wheel = emotions.load()
    for field, names, known in (
        ("emotion_bank.face_classes", bank.face_classes, wheel.classes),
        ("emotion_bank.voice_styles", bank.voice_styles, wheel.styles),
    ):
        if not names:
            raise InvalidRequest(field, f"it is empty; give at least one of: {', '.join(known)}")
        for name in names:
            _check_choice(field, name, known)


def check_turn(turn: Turn) -> None:
    """Checks that a turn is whole."""
    check_handle("turn.id", turn.id)
    for field, text in (("turn.user_text", turn.user_text), ("turn.reply_text", turn.reply_text)):
        _check_text(field, text, TEXT_CHARS_MAX)
    labels = emotions.load().labels
    for field, label in (("turn.user_emotion", turn.user_emotion), ("turn.reply_emotion", turn.reply_emotion)):
        _check_choice(field, label, labels)


def _check_profile(profile: Profile) -> None:
    _check_text("header.profile.name", profile.name, NAME_CHARS_MAX)
    _check_choice("header.profile.age", profile.age, AGES)
    _check_choice("header.profile.gender", profile.gender, GENDERS)
    _check_choice("header.profile.timbre", profile.timbre, TIMBRES)
    if not _LANGUAGE.match(profile.language):
        problem = f"{_show(profile.language)} is not a language; use two lower-case letters of ISO 639-1, such as 'en'"
        raise InvalidRequest("header.profile.language", problem)
    if profile.about:
        _check_text("header.profile.about", profile.about, ABOUT_CHARS_MAX)


def _check_consent(consent: Consent) -> None:
    _check_text("header.consent.granted_by", consent.granted_by, NAME_CHARS_MAX)
    if not _is_date(consent.granted_on):
        problem = f"{_show(consent.granted_on)} is not a date; write it as YYYY-MM-DD"
        raise InvalidRequest("header.consent.granted_on", problem)
    for use in consent.uses:
        _check_choice("header.consent.uses", use, tuple(Use))


def _is_date(value: str) -> bool:
    try:
        return _DATE.match(value) is not None and date.fromisoformat(value) is not None
    except ValueError:
        return False


def _check_text(field: str, value: str, chars_max: int) -> None:
    if not value.strip():
        raise InvalidRequest(field, f"it is empty; give 1 to {chars_max} characters")
    if len(value) > chars_max:
        raise TooLarge(field, f"it has {len(value)} characters; give at most {chars_max}")


def _check_choice(field: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise InvalidRequest(field, f"{_show(value)} is unknown; use one of: {', '.join(known)}")


def _show(value: str) -> str:
    """Quotes a value for a message, in ASCII: look-alike and invisible characters become visible."""
    return ascii(value if len(value) <= _SHOWN_CHARS_MAX else value[:_SHOWN_CHARS_MAX] + "…")
