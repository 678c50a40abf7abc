"""Permissions: when one holds, and which can be kept."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from services.common.errors import FailedPrecondition, InvalidRequest
from services.memory.consent import allowed, check_grants, check_uses, require
from services.memory.domain import Grant, Identity, Profile, Use

FACE = Grant(Use.ANIMATE_FACE, "the test", "2026-01-31")
VOICE = Grant(Use.CLONE_VOICE, "the test", "2026-02-28", until="2026-03-01")


def identity(*grants: Grant) -> Identity:
    return Identity("ada", Profile("Ada", "young", "female", "mid", "en"), (), grants, "default", 1, 0.0, "0" * 32)


def at(time: str) -> float:
    return datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("time", "holds"),
    [
        ("2026-02-27T09:59:59.999", False),
        ("2026-02-27T10:00:00", True),  # Where the day begins first, 14 hours before it does in UTC.
        ("2026-02-28T00:00:00", True),
        ("2026-03-01T23:59:59.999", True),
        ("2026-03-02T00:00:00", False),
    ],
)
def test_a_permission_holds_from_its_first_day_anywhere_to_its_last_day_in_utc(time: str, holds: bool) -> None:
    assert (Use.CLONE_VOICE in allowed(identity(VOICE), at(time))) == holds


def test_a_permission_without_an_end_holds_for_ever_and_no_other_use_with_it() -> None:
    assert allowed(identity(FACE), at("2926-01-01T00:00:00")) == {Use.ANIMATE_FACE}
    assert allowed(identity(), at("2026-01-01T00:00:00")) == set()


@pytest.mark.parametrize(
    ("grant", "time", "problem"),
    [
        (VOICE, "2026-02-01T00:00:00", "of 2026-02-28 has not begun"),
        (replace(VOICE, until=""), "2026-02-01T00:00:00", "of 2026-02-28 has not begun"),
        (VOICE, "2026-03-02T00:00:00", "of 2026-02-28 ended with 2026-03-01"),
        (FACE, "2026-03-02T00:00:00", "there is no permission for clone_voice (version 1 of 1970-01-01)"),
    ],
)
def test_a_refusal_says_whether_a_permission_lacks_has_not_begun_or_has_ended(
    grant: Grant, time: str, problem: str
) -> None:
    with pytest.raises(FailedPrecondition, match=re.escape(problem)):
        require(identity(grant), [Use.CLONE_VOICE], at(time))
    require(identity(grant), [], at(time))


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("[0].use", [replace(FACE, use="fly")]),
        ("[1].use", [FACE, FACE]),
        ("[0].granted_by", [replace(FACE, granted_by="")]),
        ("[0].granted_by", [replace(FACE, granted_by="x" * 101)]),
        ("[0].granted_by", [replace(FACE, granted_by="the test\nand nobody")]),
        *(
            ("[0].granted_on", [replace(FACE, granted_on=wrong)])
            for wrong in ("", "2026-02-30", "20260203", "2026-2-3", "2026-01-31\n", "２０２６-01-31", "2026-W05-6")  # noqa: RUF001
        ),
        ("[0].purpose", [replace(FACE, purpose="x" * 501)]),
        ("[1].until", [VOICE, replace(FACE, until="2026-01-30")]),
        ("[0].until", [replace(FACE, until="2026-13-01")]),
    ],
)
def test_a_wrong_permission_is_named_by_its_place_in_ascii(place: str, wrong: list[Grant]) -> None:
    with pytest.raises(InvalidRequest, match=f"^{re.escape(f'header.grants{place}')}: ") as refusal:
        check_grants("header.grants", wrong)
    assert str(refusal.value).isascii()


def test_whole_permissions_and_known_uses_pass() -> None:
    check_grants("header.grants", [FACE, replace(VOICE, purpose="x" * 500, granted_by="安" * 100)])
    check_grants("header.grants", [replace(FACE, until=FACE.granted_on)])
    check_uses("uses", list(Use))
    with pytest.raises(InvalidRequest, match=r"^uses: 'fly' is unknown; use one of: animate_face, clone_voice, infer_"):
        check_uses("uses", ["fly"])
