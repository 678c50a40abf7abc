"""What a turn may be, and what may be asked for: each check raises `InvalidRequest`, as those in `checks` do."""

import math
from collections.abc import Collection, Mapping

import emotions
from services.common.errors import InvalidRequest, TooLarge
from services.memory.checks import check_choice, check_handle, check_line, check_text
from services.memory.domain import Sought, Turn

TEXT_CHARS_MAX = 32_000
"""Longest text of one side of a turn: half an hour of fluent speech, transcribed."""

VOTE_RECORD_BYTES_MAX = 64 * 2**10
"""Largest record of a vote."""

ENTRIES_MAX = 32
"""Most models, variants, votes and timings: a turn has fewer than ten stages."""

ENTRY_CHARS_MAX = 100
"""Longest name of a service, a variant or a stage."""

SOUGHT_CHARS_MAX = 4000
"""Longest text to find turns by; the sentence embedding reads the first part of it."""

HITS_MAX = 32
"""Most turns that are found at once."""

WITHOUT_MAX = 1000
"""Most turns that can be left out: as many as can be recalled."""


def check_turn(turn: Turn) -> None:
    """Checks that a turn is whole."""
    check_handle("turn.id", turn.id)
    for field, text in (("turn.user_text", turn.user_text), ("turn.reply_text", turn.reply_text)):
        check_text(field, text, TEXT_CHARS_MAX)
    labels = emotions.load().labels
    for field, label in (("turn.user_emotion", turn.user_emotion), ("turn.reply_emotion", turn.reply_emotion)):
        check_choice(field, label, labels)
    _check_within("turn.user_intensity", turn.user_intensity, 0, 1)
    if len(turn.vote_record) > VOTE_RECORD_BYTES_MAX:
        problem = f"it has {len(turn.vote_record)} bytes; send at most {VOTE_RECORD_BYTES_MAX} (64 KiB)"
        raise TooLarge("turn.vote_record", problem)
    for field, entries in (("turn.models", turn.models), ("turn.variants", turn.variants)):
        _check_entries(field, entries)
        for stage, value in entries.items():
            check_text(f"{field}[{stage!a}]", value, ENTRY_CHARS_MAX)
    _check_count("turn.votes", [vote.voter for vote in turn.votes])
    for place, vote in enumerate(turn.votes):
        check_line(f"turn.votes[{place}].voter", vote.voter, ENTRY_CHARS_MAX)
        check_choice(f"turn.votes[{place}].label", vote.label, labels)
        _check_within(f"turn.votes[{place}].weight", vote.weight, 0, math.inf)
        _check_within(f"turn.votes[{place}].latency_s", vote.latency_s, 0, math.inf)
    for name in ("decided_by", "voice_style", "face_class"):
        if value := getattr(turn.delivery, name):
            check_line(f"turn.delivery.{name}", value, ENTRY_CHARS_MAX)
    _check_within("turn.delivery.intensity", turn.delivery.intensity, 0, 1)
    check_timings("turn.timings_s", turn.timings_s)


def check_timings(field: str, timings_s: Mapping[str, float]) -> None:
    """Checks how long stages are said to have taken."""
    _check_entries(field, timings_s)
    for stage, seconds in timings_s.items():
        _check_within(f"{field}[{stage!a}]", seconds, 0, math.inf)


def check_sought(sought: Sought) -> None:
    """Checks what is looked for."""
    check_text("text", sought.text, SOUGHT_CHARS_MAX)
    if not 1 <= sought.hits_max <= HITS_MAX:
        raise InvalidRequest("hits_max", f"{sought.hits_max} hits; ask for 1 to {HITS_MAX}")
    _check_within("similarity_min", sought.similarity_min, -1, 1)
    _check_within("age_max_s", sought.age_max_s, 0, math.inf)
    for label in sorted(sought.user_emotions):
        check_choice("user_emotions", label, emotions.load().labels)
    if len(sought.without) > WITHOUT_MAX:
        raise TooLarge("without", f"it names {len(sought.without)} turns; name at most {WITHOUT_MAX}")


def _check_entries(field: str, entries: Mapping[str, object]) -> None:
    _check_count(field, entries)
    for name in entries:
        check_text(f"{field}: name", name, ENTRY_CHARS_MAX)


def _check_count(field: str, entries: Collection[str]) -> None:
    if len(entries) > ENTRIES_MAX:
        raise TooLarge(field, f"it has {len(entries)} entries; give at most {ENTRIES_MAX}")


def _check_within(field: str, value: float, least: float, most: float) -> None:
    """Checks a number; what is endless or none is outside of everything."""
    if not (math.isfinite(value) and least <= value <= most):
        right = f"{least} to {most}" if math.isfinite(most) else f"a number from {least}"
        raise InvalidRequest(field, f"{value} is not allowed; give {right}")
