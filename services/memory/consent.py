"""Permissions: which may be kept, and whether one holds today."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from services.common.errors import FailedPrecondition, InvalidRequest
from services.memory.checks import check, check_choice, show
from services.memory.domain import Grant, Identity, Use

EARLIEST_S = 14 * 3600.0
"""Largest lead of a local day over the day of UTC."""


def check_grants(field: str, grants: Sequence[Grant]) -> None:
    """Check permissions: one for each use, with real dates; an error names the place ("header.grants[1].until")."""
    for index, grant in enumerate(grants):
        place = f"{field}[{index}]"
        check(place, grant)
        if any(other.use == grant.use for other in grants[:index]):
            raise InvalidRequest(f"{place}.use", f"{show(grant.use)} is there twice; give each use one permission")
        if grant.until and grant.until < grant.granted_on:
            problem = f"{show(grant.until)} is before {grant.granted_on}, when it was granted; give a later day"
            raise InvalidRequest(f"{place}.until", problem)


def check_uses(field: str, uses: Collection[str]) -> None:
    """Check that all of these can be allowed."""
    for use in uses:
        check_choice(field, use, tuple(Use))


def allowed(identity: Identity, now_s: float) -> frozenset[str]:
    """Return the uses that are allowed at that Unix time. A permission's last day is one of UTC.

    Its first day begins when it does somewhere on earth, up to 14 hours before it does in UTC.
    """
    today, begun = _day(now_s), _day(now_s + EARLIEST_S)
    return frozenset(
        grant.use
        for grant in identity.grants
        if grant.granted_on <= begun and (not grant.until or today <= grant.until)
    )


def require(identity: Identity, uses: Collection[str], now_s: float) -> None:
    """Refuse what is not allowed at that Unix time: the message says which permission, whose, since when, the remedy.

    Raises:
        FailedPrecondition: Permissions are missing or have ended.
    """
    holds = allowed(identity, now_s)
    missing = sorted(set(uses) - holds)
    if not missing:
        return
    given = "; ".join(
        f"{grant.use} by {grant.granted_by} since {grant.granted_on}" for grant in identity.grants if grant.use in holds
    )
    problems = "; ".join(_problem(identity, use, _day(now_s)) for use in missing)
    wanted = " ".join(f"--grant {use}" for use in missing)
    raise FailedPrecondition(
        f"identity {identity.id!r}: {problems}; allowed is {given or 'nothing'}; whoever may allow it does so with"
        f" `e3rg identity change {identity.id} {wanted} --granted-by NAME`"
    )


def _problem(identity: Identity, use: str, today: str) -> str:
    for grant in identity.grants:
        if grant.use == use:
            ended = f"ended with {grant.until}" if grant.until and grant.until < today else "has not begun"
            return f"the permission for {use} by {grant.granted_by} of {grant.granted_on} {ended}"
    since = f"version {identity.version} of {_day(identity.changed_at_s)}"
    return f"there is no permission for {use} ({since})"


def _day(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).date().isoformat()
