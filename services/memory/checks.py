"""What may be kept: the rules for names, texts, profiles and banks.

Each check raises `InvalidRequest`, which names the field, the value and what would be right.
"""

import re
import unicodedata
from collections.abc import Collection

import emotions
from services.common.errors import InvalidRequest, TooLarge
from services.memory.domain import EmotionBank, Profile

AGES = ("child", "young", "middle-aged", "elderly")
GENDERS = ("female", "male")
TIMBRES = ("high", "mid", "low")

NAME_CHARS_MAX = 100
"""Longest name of a person."""

ABOUT_CHARS_MAX = 500
"""Longest description of a person, or of a purpose."""

STYLE_CHARS_MAX = 200
"""Longest description of how somebody talks: a writer has it in its prompt."""

# `\Z`, not `$`: the latter lets a trailing newline through. ASCII classes: look-alike letters are other names.
_ID = re.compile(r"[a-z][a-z0-9-]{0,62}\Z")
_HANDLE = re.compile(r"[A-Za-z0-9-]{1,63}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_LANGUAGE = re.compile(r"[a-z]{2}\Z")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,62}\Z")
_NOT_IN_A_LINE = {"Cc", "Cs", "Zl", "Zp"}
_SHOWN_CHARS_MAX = 80


def check_id(field: str, value: str) -> None:
    """Checks the name of a tenant, an identity or an emotion bank."""
    if not _ID.match(value):
        raise InvalidRequest(
            field, f"{show(value)} is not a name; use 1 to 63 lower-case letters a-z, digits, hyphens, first a letter"
        )


def check_handle(field: str, value: str) -> None:
    """Checks the name of a person, a conversation or a turn."""
    if not _HANDLE.match(value):
        raise InvalidRequest(field, f"{show(value)} is not a name; use 1 to 63 letters A-Z a-z, digits, hyphens")


def check_digest(field: str, value: str) -> None:
    """Checks a SHA-256."""
    if not _DIGEST.match(value):
        raise InvalidRequest(field, f"{show(value)} is not a SHA-256; send 64 digits 0-9 a-f")


def check_media_type(field: str, value: str) -> None:
    """Checks a MIME type."""
    if not _MEDIA_TYPE.match(value):
        raise InvalidRequest(field, f"{show(value)} is not a MIME type; write type/subtype, such as 'audio/wav'")


def check_text(field: str, value: str, chars_max: int) -> None:
    """Checks that a text is there and not too long."""
    if not value.strip():
        raise InvalidRequest(field, f"it is empty; give 1 to {chars_max} characters")
    if len(value) > chars_max:
        raise TooLarge(field, f"it has {len(value)} characters; give at most {chars_max}")


def check_line(field: str, value: str, chars_max: int) -> None:
    """Checks a text of one line: what stands in listings, and within prompts."""
    check_text(field, value, chars_max)
    if any(unicodedata.category(char) in _NOT_IN_A_LINE for char in value):
        raise InvalidRequest(field, f"{show(value)} has line breaks or control characters; write one line")


def check_choice(field: str, value: str, known: Collection[str]) -> None:
    """Checks that a value is one of those that are known."""
    if value not in known:
        raise InvalidRequest(field, f"{show(value)} is unknown; use one of: {', '.join(known)}")


def check_profile(field: str, profile: Profile) -> None:
    """Checks who an avatar is."""
    check_line(f"{field}.name", profile.name, NAME_CHARS_MAX)
    check_choice(f"{field}.age", profile.age, AGES)
    check_choice(f"{field}.gender", profile.gender, GENDERS)
    check_choice(f"{field}.timbre", profile.timbre, TIMBRES)
    if not _LANGUAGE.match(profile.language):
        problem = f"{show(profile.language)} is not a language; use two lower-case letters of ISO 639-1, such as 'en'"
        raise InvalidRequest(f"{field}.language", problem)
    if profile.about:
        check_line(f"{field}.about", profile.about, ABOUT_CHARS_MAX)
    if profile.speaking_style:
        check_line(f"{field}.speaking_style", profile.speaking_style, STYLE_CHARS_MAX)


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
            check_choice(field, name, known)
        if len(set(names)) < len(names):
            raise InvalidRequest(field, f"{len(names)} names, some twice; name each once")


def show(value: str) -> str:
    """Quotes a value for a message, in ASCII: look-alike and invisible characters become visible."""
    return ascii(value if len(value) <= _SHOWN_CHARS_MAX else value[:_SHOWN_CHARS_MAX] + "…")
