"""Validation rules of names, texts, numbers and files.

Each check raises `InvalidRequest`, which names the field, the value and what would be right.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import emotions
from services.common.errors import InvalidRequest, TooLarge
from services.memory import domain
from services.memory.domain import ClipKind, File, Generator, Reference, ReferenceKind

Check = Callable[[str, Any], None]

TEXT_CHARS_MAX = 32_000
"""Longest text of one side of a turn: half an hour of fluent speech, transcribed."""
ENTRIES_MAX = 32
"""Most models, variants, votes and timings of a turn, which has fewer than ten stages."""
FILES_MAX, ALL_BYTES_MAX = 16, 2**27
"""Most reference files of an identity, and their greatest sum."""
DERIVED_BYTES_MAX = EMOTION_BYTES_MAX = 2**24
CLIP_BYTES_MAX = 2**26
BYTES_MAX = {ReferenceKind.PORTRAIT: 2**24, ReferenceKind.VOICE: 2**24, ReferenceKind.FILM: 2**26}

_NAME, _VOTE_RECORD_BYTES_MAX, _SHOWN_CHARS_MAX = 100, 2**16, 80
# `\Z`, not `$`: the latter lets a trailing newline through. ASCII classes: look-alike letters are other names.
_PATTERNS = {
    "a name; use 1 to 63 lower-case letters a-z, digits, hyphens, first a letter": r"[a-z][a-z0-9-]{0,62}\Z",
    "a name; use 1 to 63 letters A-Z a-z, digits, hyphens": r"[A-Za-z0-9-]{1,63}\Z",
    "a SHA-256; send 64 digits 0-9 a-f": r"[0-9a-f]{64}\Z",
    "a language; use two lower-case letters of ISO 639-1, such as 'en'": r"[a-z]{2}\Z",
    "a MIME type; write type/subtype, such as 'audio/wav'": r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,62}\Z",
}
_FORMATS = {
    ReferenceKind.PORTRAIT: "a PNG or JPEG file",
    ReferenceKind.VOICE: "a WAV file",
    ReferenceKind.FILM: "an MP4 or WebM file",
    ClipKind.SPEECH: "a WAV file",
    ClipKind.VIDEO: "an MP4 file",
}


def _matching(what: str) -> Check:
    pattern = re.compile(_PATTERNS[what])

    def check(field: str, value: str) -> None:
        if not pattern.match(value):
            raise InvalidRequest(field, f"{show(value)} is not {what}")

    return check


check_id, check_handle, check_digest, check_language, check_media_type = map(_matching, _PATTERNS)


def check_text(field: str, value: str, chars_max: int) -> None:
    """Check that a text is there and not too long."""
    if not value.strip():
        raise InvalidRequest(field, f"it is empty; give 1 to {chars_max} characters")
    if len(value) > chars_max:
        raise TooLarge(field, f"it has {len(value)} characters; give at most {chars_max}")
    if "\0" in value:
        raise InvalidRequest(field, "it has the character U+0000, which PostgreSQL cannot keep; leave it out")


def check_line(field: str, value: str, chars_max: int) -> None:
    """Check a text of one line: it stands in listings, and within prompts."""
    check_text(field, value, chars_max)
    if any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in value):
        raise InvalidRequest(field, f"{show(value)} has line breaks or control characters; write one line")


def check_choice(field: str, value: str, known: Collection[str]) -> None:
    """Check that a value is one of those that are known."""
    if value not in known:
        raise InvalidRequest(field, f"{show(value)} is unknown; use one of: {', '.join(known)}")


def check_within(field: str, value: float, least: float, most: float = math.inf) -> None:
    """Check a number; what is endless or none is outside of everything."""
    if not (math.isfinite(value) and least <= value <= most):
        right = f"{least} to {most}" if math.isfinite(most) else f"a number from {least}"
        raise InvalidRequest(field, f"{value} is not allowed; give {right}")


def check(field: str, value: Any) -> None:
    """Check a dataclass of the domain by the rules of its type."""
    for name, rule in _RULES[type(value)].items():
        rule(f"{field}.{name}" if field else name, getattr(value, name))


def _text(chars_max: int) -> Check:
    return lambda field, value: check_text(field, value, chars_max)


def _line(chars_max: int, is_optional: bool = False) -> Check:
    return lambda field, value: check_line(field, value, chars_max) if value or not is_optional else None


def _one_of(*known: str) -> Check:
    return lambda field, value: check_choice(field, value, known)


def _within(least: float, most: float = math.inf) -> Check:
    return lambda field, value: check_within(field, value, least, most)


def _label(field: str, value: str) -> None:
    check_choice(field, value, emotions.load().labels)


def check_labels(field: str, values: Collection[str]) -> None:
    """Check labels of the ontology."""
    for value in sorted(values):
        _label(field, value)


def _count(field: str, entries: Collection[Any], most: int, what: str = "entries; give") -> None:
    if len(entries) > most:
        raise TooLarge(field, f"it has {len(entries)} {what} at most {most}")


def _entries(rule: Check) -> Check:
    def check_entries(field: str, entries: Mapping[str, Any]) -> None:
        _count(field, entries, ENTRIES_MAX)
        for name, value in entries.items():
            check_text(f"{field}: name", name, _NAME)
            rule(f"{field}[{name!a}]", value)

    return check_entries


check_timings = _entries(_within(0))


def _votes(field: str, votes: Sequence[Any]) -> None:
    _count(field, votes, ENTRIES_MAX)
    for place, vote in enumerate(votes):
        check(f"{field}[{place}]", vote)


def _vote_record(field: str, record: bytes) -> None:
    if len(record) > _VOTE_RECORD_BYTES_MAX:
        problem = f"it has {len(record)} bytes; send at most {_VOTE_RECORD_BYTES_MAX} (64 KiB)"
        raise TooLarge(field, problem)


def _hits(field: str, hits_max: int) -> None:
    if not 1 <= hits_max <= 32:
        raise InvalidRequest(field, f"{hits_max} hits; ask for 1 to 32")


def _stars(field: str, value: int) -> None:
    if not 1 <= value <= 5:
        raise InvalidRequest(field, f"{value}; give 1 (poor) to 5 (excellent)")


def _days(field: str, days: int) -> None:
    if not 0 <= days <= 36_500:
        raise InvalidRequest(field, f"{days} days; use 1 to 36500, or 0 to set no end")


def _of_wheel(kind: str) -> Check:
    def check_names(field: str, names: Sequence[str]) -> None:
        known = getattr(emotions.load(), kind)
        if not names:
            raise InvalidRequest(field, f"it is empty; give at least one of: {', '.join(known)}")
        for name in names:
            check_choice(field, name, known)
        if len(set(names)) < len(names):
            raise InvalidRequest(field, f"{len(names)} names, some twice; name each once")

    return check_names


_RULES: dict[type[Any], dict[str, Check]] = {
    domain.Profile: {
        "name": _line(_NAME),
        "age": _one_of("child", "young", "middle-aged", "elderly"),
        "gender": _one_of("female", "male"),
        "timbre": _one_of("high", "mid", "low"),
        "language": check_language,
        "about": _line(500, is_optional=True),
        "speaking_style": _line(200, is_optional=True),
    },
    domain.EmotionBank: {"name": check_id, "face_classes": _of_wheel("classes"), "voice_styles": _of_wheel("styles")},
    domain.Turn: {
        "id": check_handle,
        "user_text": _text(TEXT_CHARS_MAX),
        "reply_text": _text(TEXT_CHARS_MAX),
        "user_emotion": _label,
        "reply_emotion": _label,
        "user_intensity": _within(0, 1),
        "vote_record": _vote_record,
        "models": _entries(_text(_NAME)),
        "variants": _entries(_text(_NAME)),
        "votes": _votes,
        "delivery": check,
        "timings_s": check_timings,
    },
    domain.TurnVote: {"voter": _line(_NAME), "label": _label, "weight": _within(0), "latency_s": _within(0)},
    domain.TurnDelivery: {
        **dict.fromkeys(("decided_by", "voice_style", "face_class"), _line(_NAME, is_optional=True)),
        "intensity": _within(0, 1),
    },
    domain.Sought: {
        "text": _text(4000),
        "hits_max": _hits,
        "similarity_min": _within(-1, 1),
        "age_max_s": _within(0),
        "user_emotions": check_labels,
        "without": lambda field, ids: _count(field, ids, 1000, "turns; name"),
    },
    domain.Example: {"user_text": _text(1000), "user_emotion": _label, "reply_text": _text(1000)},
    domain.Rating: {
        "rater": check_handle,
        **dict.fromkeys(("expressiveness", "consistency", "naturalness"), _stars),
    },
    domain.Retention: dict.fromkeys(("turns_days", "clips_days", "derived_days", "audits_days"), _days),
}


def check_emotion(field: str, generator: Generator, name: str) -> None:
    """Check that the ontology has this emotion for a generator."""
    wheel = emotions.load()
    check_choice(field, name, wheel.styles if generator is Generator.VOICE else wheel.classes)


def check_declared(field: str, declared: Sequence[tuple[ReferenceKind, int]], whole: bool = False) -> None:
    """Check kinds and sizes of reference files before a byte of them is read; `whole`: an identity has no others."""
    for place, (kind, size_bytes) in enumerate(declared):
        if size_bytes < 1:
            raise InvalidRequest(f"{field}[{place}]", f"the {kind} is empty (0 bytes); send {_FORMATS[kind]}")
        if size_bytes > BYTES_MAX[kind]:
            problem = f"the {kind} has {size_bytes} bytes; send at most {BYTES_MAX[kind]} ({_mib(BYTES_MAX[kind])})"
            raise TooLarge(f"{field}[{place}]", problem)
    if len(declared) > FILES_MAX:
        raise TooLarge(field, f"{len(declared)} files; an identity has at most {FILES_MAX}")
    if (sum_bytes := sum(size for _, size in declared)) > ALL_BYTES_MAX:
        problem = f"{sum_bytes} bytes in all; an identity has at most {ALL_BYTES_MAX} ({_mib(ALL_BYTES_MAX)})"
        raise TooLarge(field, problem)
    if whole:
        check_needed(field, [kind for kind, _ in declared])


def check_needed(field: str, kinds: Collection[ReferenceKind]) -> None:
    """Check that a portrait and a voice are there."""
    for kind in (ReferenceKind.PORTRAIT, ReferenceKind.VOICE):
        if kind not in kinds:
            raise InvalidRequest(field, f"no {kind} among the identity's files; it needs one: send {_FORMATS[kind]}")


def came(field: str, files: Sequence[File], since: int, others: Sequence[Reference] = ()) -> tuple[Reference, ...]:
    """Check files that come with version `since` beside `others`, and return their references.

    Whether a face or a voice in them is usable is for the services that use them to say.
    """
    check_declared(field, [(file.kind, len(file.content)) for file in files])
    references: list[Reference] = []
    for place, file in enumerate(files):
        check_format(f"{field}[{place}]", file.kind, file.content)
        reference = Reference(domain.digest_of(file.content), len(file.content), file.kind, since)
        if any(other.digest == reference.digest for other in (*others, *references)):
            problem = f"the {file.kind} with SHA-256 {reference.digest} is there already; send each file once"
            raise InvalidRequest(f"{field}[{place}]", problem)
        references.append(reference)
    return tuple(references)


def left(field: str, references: Sequence[Reference], removed: Sequence[str]) -> tuple[Reference, ...]:
    """Return the references that are not removed; check that the others are there, each once."""
    for place, digest in enumerate(removed):
        check_digest(f"{field}[{place}]", digest)
        if digest in removed[:place]:
            raise InvalidRequest(f"{field}[{place}]", f"{digest} is there twice; name each file once")
        if all(reference.digest != digest for reference in references):
            problem = f"{digest} is the SHA-256 of none of its files; GetIdentity tells them"
            raise InvalidRequest(f"{field}[{place}]", problem)
    return tuple(reference for reference in references if reference.digest not in removed)


def check_content(content: bytes, bytes_max: int, what: str = "") -> None:
    """Check that a content is there and not too large; `what` it should be."""
    if not content:
        raise InvalidRequest("content", f"it is {'missing' if what else 'empty'} (0 bytes); send {what or bytes_max}")
    if len(content) > bytes_max:
        raise TooLarge("content", f"it has {len(content)} bytes; send at most {bytes_max} ({_mib(bytes_max)})")


def check_clip(kind: ClipKind, content: bytes) -> None:
    """Check that a clip is there, is not too large and begins as its format does."""
    check_content(content, CLIP_BYTES_MAX, _FORMATS[kind])
    check_format("content", kind, content)


def check_format(field: str, kind: ReferenceKind | ClipKind, content: bytes) -> None:
    """Check that a file begins as its format does."""
    is_mp4, is_wav = content[4:8] == b"ftyp", content[:4] == b"RIFF" and content[8:12] == b"WAVE"
    begins_well = {
        ReferenceKind.PORTRAIT: content.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")),
        ReferenceKind.VOICE: is_wav,
        ReferenceKind.FILM: is_mp4 or content.startswith(b"\x1aE\xdf\xa3"),
        ClipKind.SPEECH: is_wav,
        ClipKind.VIDEO: is_mp4,
    }[kind]
    if not begins_well:
        what = f"its {len(content)} bytes begin" if isinstance(kind, ClipKind) else f"the {kind} begins"
        raise InvalidRequest(field, f"{what} with {content[:12]!r}; send {_FORMATS[kind]}")


def show(value: str) -> str:
    """Quote a value for a message, in ASCII: look-alike and invisible characters become visible."""
    return ascii(value if len(value) <= _SHOWN_CHARS_MAX else value[:_SHOWN_CHARS_MAX] + "…")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes // 2**20} MiB"
