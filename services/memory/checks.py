"""Validation rules of names, texts, numbers and files.

Each check raises `InvalidRequest`, which names the field, the value and what would be right.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from typing import Any

import emotions
from services.common.errors import InvalidRequest, TooLarge
from services.memory import domain
from services.memory.domain import ClipKind, File, Generator, Reference, ReferenceKind

Check = Callable[[str, Any], None]

NAME_CHARS_MAX = 100
"""Longest name that people give: of a profile, a voter, a model."""
TEXT_CHARS_MAX = 32_000
"""Longest text of one side of a turn: half an hour of fluent speech, transcribed."""
ENTRIES_MAX = 32
"""Most models, variants, votes and timings of a turn, which has fewer than twenty stages."""
SCORE_MAX = 1e12
"""Largest absolute value of a score: sums of many stay finite."""
FILES_MAX, ALL_BYTES_MAX = 16, 2**27
"""Most reference files of an identity, and their greatest sum."""
DERIVED_BYTES_MAX = EMOTION_BYTES_MAX = 2**24
CLIP_BYTES_MAX = 2**26
BYTES_MAX = {ReferenceKind.PORTRAIT: 2**24, ReferenceKind.VOICE: 2**24, ReferenceKind.FILM: 2**26}

PHASE_MAX = 2**31 - 1

_HITS_PROBLEM = "{} hits; ask for 1 to 32"
_VOTE_RECORD_BYTES_MAX, _SHOWN_CHARS_MAX = 2**16, 80
# `\Z`, not `$`: the latter lets a trailing newline through. ASCII classes: look-alike letters are other names.
_PATTERNS = {
    "a name; use 1 to 63 lower-case letters a-z, digits, hyphens, first a letter": r"[a-z][a-z0-9-]{0,62}\Z",
    "a name; use 1 to 63 letters A-Z a-z, digits, hyphens": r"[A-Za-z0-9-]{1,63}\Z",
    "a SHA-256; send 64 digits 0-9 a-f": r"[0-9a-f]{64}\Z",
    "a language; use two lower-case letters of ISO 639-1, such as 'en'": r"[a-z]{2}\Z",
    "a name; use 1 to 40 lower-case letters a-z, digits, hyphens": r"[a-z0-9-]{1,40}\Z",
    "a MIME type; write type/subtype, such as 'audio/wav'": r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,62}\Z",
}
_FORMATS = {
    ReferenceKind.PORTRAIT: ("a PNG or JPEG file", rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff"),
    ReferenceKind.VOICE: ("a WAV file", rb"RIFF.{4}WAVE"),
    ReferenceKind.FILM: ("an MP4 or WebM file", rb".{4}ftyp|\x1aE\xdf\xa3"),
    ClipKind.SPEECH: ("a WAV file", rb"RIFF.{4}WAVE"),
    ClipKind.VIDEO: ("an MP4 file", rb".{4}ftyp"),
}
"""Name of each file format, and the pattern of its beginning."""


def _matching(what: str) -> Check:
    pattern = re.compile(_PATTERNS[what])

    def check(field: str, value: str) -> None:
        if not pattern.match(value):
            raise InvalidRequest(field, f"{show(value)} is not {what}")

    return check


check_id, check_handle, check_digest, check_language, check_slug, check_media_type = map(_matching, _PATTERNS)


def check_text(field: str, value: str, chars_max: int) -> None:
    """Check that a text is there and not too long."""
    if not value.strip():
        raise InvalidRequest(field, f"it is empty; give 1 to {chars_max} characters")
    if len(value) > chars_max:
        raise TooLarge(field, f"it has {len(value)} characters; give at most {chars_max}")
    if "\0" in value:
        raise InvalidRequest(field, "it has the character U+0000, which PostgreSQL cannot keep; leave it out")


def check_line(field: str, value: str, chars_max: int = NAME_CHARS_MAX) -> None:
    """Check a text of one line: it stands in listings, and within prompts."""
    check_text(field, value, chars_max)
    if any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in value):
        raise InvalidRequest(field, f"{show(value)} has line breaks or control characters; write one line")


def check_choice(field: str, value: str, known: Collection[str]) -> None:
    """Check that a value is one of those that are known."""
    if value not in known:
        raise InvalidRequest(field, f"{show(value)} is unknown; use one of: {', '.join(known)}")


def check_within(
    field: str, value: float, least: float, most: float = math.inf, problem: str = "{} is not allowed; give {}"
) -> None:
    """Check a number; what is endless or none is outside of everything."""
    if not (math.isfinite(value) and least <= value <= most):
        right = f"{least} to {most}" if math.isfinite(most) else f"a number from {least}"
        raise InvalidRequest(field, problem.format(value, right))


def check_count(field: str, entries: Collection[Any], most: int = ENTRIES_MAX, what: str = "entries; give") -> None:
    """Check that there are not too many entries."""
    if len(entries) > most:
        raise TooLarge(field, f"it has {len(entries)} {what} at most {most}")


def check_hits(hits_max: int) -> None:
    """Check that a search which can find nothing else asks for hits."""
    check_within("hits_max", hits_max, 1, problem=_HITS_PROBLEM)


def check_labels(field: str, values: Collection[str]) -> None:
    """Check labels of the ontology."""
    for value in sorted(values):
        check_choice(field, value, emotions.load().labels)


def check(field: str, value: Any) -> None:
    """Check a dataclass of the domain by the rules of its type."""
    for name, rule in _RULES[type(value)].items():
        rule(f"{field}.{name}" if field else name, getattr(value, name))


def check_date(field: str, value: str) -> None:
    """Check that a day of the calendar is written as YYYY-MM-DD."""
    with suppress(ValueError):
        if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", value) and date.fromisoformat(value):
            return
    raise InvalidRequest(field, f"{show(value)} is not a date; write it as YYYY-MM-DD")


def _optional(rule: Check) -> Check:
    return lambda field, value: rule(field, value) if value else None


def _label(field: str, value: str) -> None:
    check_labels(field, [value])


def _entries(rule: Check) -> Check:
    def check_entries(field: str, entries: Mapping[str, Any]) -> None:
        check_count(field, entries)
        for name, value in entries.items():
            check_text(f"{field}: name", name, NAME_CHARS_MAX)
            rule(f"{field}[{name!a}]", value)

    return check_entries


def check_scores(field: str, scores: Mapping[str, float]) -> None:
    """Check automatic scores: at least one, names of the label's form, and numbers."""
    if not scores:
        raise InvalidRequest(field, "it is empty; name at least one score with its value")
    check_count(field, scores)
    for name, value in scores.items():
        check_slug(f"{field}: name", name)
        check_within(f"{field}[{name}]", value, -SCORE_MAX, SCORE_MAX)


def _lines(field: str, lines: Sequence[str]) -> None:
    check_count(field, lines)
    for place, line in enumerate(lines):
        check_line(f"{field}[{place}]", line)


def _votes(field: str, votes: Sequence[Any]) -> None:
    check_count(field, votes)
    for place, vote in enumerate(votes):
        check(f"{field}[{place}]", vote)


def _vote_record(field: str, record: bytes) -> None:
    if len(record) > _VOTE_RECORD_BYTES_MAX:
        problem = f"it has {len(record)} bytes; send at most {_VOTE_RECORD_BYTES_MAX} (64 KiB)"
        raise TooLarge(field, problem)


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


_positive, _share = partial(check_within, least=0), partial(check_within, least=0, most=1)
_said = partial(check_text, chars_max=TEXT_CHARS_MAX)
_star = partial(check_within, least=1, most=5, problem="{}; give 1 (poor) to 5 (excellent)")
_days = partial(check_within, least=0, most=36_500, problem="{} days; use 1 to 36500, or 0 to set no end")
check_timings = _entries(_positive)

_RULES: dict[type[Any], dict[str, Check]] = {
    domain.Profile: {
        "name": check_line,
        "age": partial(check_choice, known=("child", "young", "middle-aged", "elderly")),
        "gender": partial(check_choice, known=("female", "male")),
        "timbre": partial(check_choice, known=("high", "mid", "low")),
        "language": check_language,
        "about": _optional(partial(check_line, chars_max=500)),
        "speaking_style": _optional(partial(check_line, chars_max=200)),
    },
    domain.Grant: {
        "use": partial(check_choice, known=tuple(domain.Use)),
        "granted_by": check_line,
        "granted_on": check_date,
        "purpose": _optional(partial(check_line, chars_max=500)),
        "until": _optional(check_date),
    },
    domain.EmotionBank: {"name": check_id, "face_classes": _of_wheel("classes"), "voice_styles": _of_wheel("styles")},
    domain.Turn: {
        "id": check_handle,
        **dict.fromkeys(("user_text", "reply_text"), _said),
        **dict.fromkeys(("user_emotion", "reply_emotion"), _label),
        "user_intensity": _share,
        "vote_record": _vote_record,
        **dict.fromkeys(("models", "variants"), _entries(partial(check_text, chars_max=NAME_CHARS_MAX))),
        "votes": _votes,
        "delivery": check,
        "timings_s": check_timings,
        "experiment": _optional(check_slug),
        "phase": partial(check_within, least=0, most=PHASE_MAX),
        "degraded": _lines,
    },
    domain.Outcome: {
        **dict.fromkeys(("models", "variants"), _entries(partial(check_text, chars_max=NAME_CHARS_MAX))),
        "timings_s": check_timings,
        "degraded": _lines,
    },
    domain.TurnVote: {"voter": check_line, "label": _label, "weight": _positive, "latency_s": _positive},
    domain.TurnDelivery: {
        **dict.fromkeys(("decided_by", "voice_style", "face_class"), _optional(check_line)),
        "intensity": _share,
    },
    domain.TurnFilter: {
        "identity": _optional(check_id),
        **dict.fromkeys(("user", "conversation"), _optional(check_handle)),
        **dict.fromkeys(("from_s", "until_s"), _positive),
        **dict.fromkeys(("user_emotions", "reply_emotions"), check_labels),
        **dict.fromkeys(("stage", "text"), _optional(partial(check_text, chars_max=200))),
    },
    domain.Sought: {
        "text": partial(check_text, chars_max=4000),
        "hits_max": partial(check_within, least=0, most=32, problem=_HITS_PROBLEM),
        "examples_max": partial(check_within, least=0, most=32, problem="{} examples; ask for 1 to 32, or 0 for none"),
        "similarity_min": partial(check_within, least=-1, most=1),
        "age_max_s": _positive,
        "user_emotions": check_labels,
        "without": partial(check_count, most=1000, what="turns; name"),
    },
    domain.SummaryFilter: {
        "stage": check_line,
        "experiment": _optional(check_slug),
        **dict.fromkeys(("from_s", "until_s"), _positive),
    },
    domain.Example: {
        **dict.fromkeys(("user_text", "reply_text"), partial(check_text, chars_max=1000)),
        "user_emotion": _label,
    },
    domain.Rating: {"rater": check_handle, **dict.fromkeys(("expressiveness", "consistency", "naturalness"), _star)},
    domain.Retention: dict.fromkeys(("turns_days", "clips_days", "derived_days", "audits_days"), _days),
}


def check_emotion(field: str, generator: Generator, name: str) -> None:
    """Check that the ontology has this emotion for a generator."""
    wheel = emotions.load()
    check_choice(field, name, wheel.styles if generator is Generator.VOICE else wheel.classes)


def check_declared(field: str, files: Sequence[File | Reference], whole: bool = False) -> None:
    """Check kinds and sizes of reference files before a byte of them is read; `whole`: an identity has no others."""
    for place, file in enumerate(files):
        bytes_max = BYTES_MAX[file.kind]
        if file.size_bytes < 1:
            problem = f"the {file.kind} is empty (0 bytes); send {_FORMATS[file.kind][0]}"
            raise InvalidRequest(f"{field}[{place}]", problem)
        if file.size_bytes > bytes_max:
            problem = f"the {file.kind} has {file.size_bytes} bytes; send at most {bytes_max} ({_mib(bytes_max)})"
            raise TooLarge(f"{field}[{place}]", problem)
    if len(files) > FILES_MAX:
        raise TooLarge(field, f"{len(files)} files; an identity has at most {FILES_MAX}")
    if (sum_bytes := sum(file.size_bytes for file in files)) > ALL_BYTES_MAX:
        problem = f"{sum_bytes} bytes in all; an identity has at most {ALL_BYTES_MAX} ({_mib(ALL_BYTES_MAX)})"
        raise TooLarge(field, problem)
    if whole:
        check_needed(field, files)


def check_needed(field: str, files: Sequence[File | Reference]) -> None:
    """Check that a portrait and a voice are there."""
    for kind in (ReferenceKind.PORTRAIT, ReferenceKind.VOICE):
        if all(file.kind is not kind for file in files):
            problem = f"no {kind} among the identity's files; it needs one: send {_FORMATS[kind][0]}"
            raise InvalidRequest(field, problem)


def new_references(
    field: str, files: Sequence[File], since: int, others: Sequence[Reference] = ()
) -> tuple[Reference, ...]:
    """Check files that come with version `since` beside `others`, and return their references.

    Whether a face or a voice in them is usable is for the services that use them to say.
    """
    check_declared(field, files)
    references: list[Reference] = []
    for place, file in enumerate(files):
        check_format(f"{field}[{place}]", file.kind, file.content)
        reference = Reference(domain.digest_of(file.content), file.size_bytes, file.kind, since)
        if any(other.digest == reference.digest for other in (*others, *references)):
            problem = f"the {file.kind} with SHA-256 {reference.digest} is there already; send each file once"
            raise InvalidRequest(f"{field}[{place}]", problem)
        references.append(reference)
    return tuple(references)


def kept_references(field: str, references: Sequence[Reference], removed: Sequence[str]) -> tuple[Reference, ...]:
    """Return the references that are not removed; check that the others are there, each once."""
    known = [reference.digest for reference in references]
    for place, digest in enumerate(removed):
        check_digest(f"{field}[{place}]", digest)
        if digest in removed[:place]:
            raise InvalidRequest(f"{field}[{place}]", f"{digest} is there twice; name each file once")
        if digest not in known:
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
    check_content(content, CLIP_BYTES_MAX, _FORMATS[kind][0])
    check_format("content", kind, content)


def check_format(field: str, kind: ReferenceKind | ClipKind, content: bytes) -> None:
    """Check that a file begins as its format does."""
    what, beginning = _FORMATS[kind]
    if not re.match(beginning, content, re.DOTALL):
        whose = f"its {len(content)} bytes begin" if isinstance(kind, ClipKind) else f"the {kind} begins"
        raise InvalidRequest(field, f"{whose} with {content[:12]!r}; send {what}")


def show(value: str) -> str:
    """Quote a value for a message, in ASCII: look-alike and invisible characters become visible."""
    return ascii(value if len(value) <= _SHOWN_CHARS_MAX else value[:_SHOWN_CHARS_MAX] + "…")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes // 2**20} MiB"
