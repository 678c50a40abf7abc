"""Format of an archive: a whole identity as one tar file.

An archive holds nothing that a model made (embeddings, derived data): an altered one cannot bring in what a model would
take for its own.

    identity.json                              profile, permissions, reference files; always the first
    references/<digest>                        reference files; before all others
    versions/<number>                          the same as identity.json of each earlier version, from 1
    emotions/<generator>/<name>                the identity's own emotional references
    exemplars/<number>                         examples: a line of JSON each
    people/<user>/turns/<number>               turns, oldest first: a line of JSON each
    people/<user>/clips/<conversation>/<place>-<turn>/<kind>   clips; behind the turns of their user
    people/<user>/risks/<number>               risks that have not faded: a line of JSON each

A user is "p-<name>", or "c-<conversation>" for one who is known in one conversation only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from services.common.errors import InvalidRequest
from services.common.tar import Member
from services.memory import checks
from services.memory.consent import check_grants
from services.memory.domain import Example, Grant, Identity, Profile, Reference, Risk, Turn

VERSION = 4
"""1 had no earlier versions of an identity; until 2 the models of a turn were called its variants; 3 had no risks."""

ABOUT, VERSIONS_MAX = "identity.json", 10_000
TIME_S_MAX = 1e11
"""Nothing was said or changed later: Unix time, of the year 5138."""
LINES_BYTES, LINES_MAX = 2**20, 200
"""A member of lines ends with so many bytes or lines: lines are embedded at once."""

_HANDLE, _LINES_BYTES_MAX = "[A-Za-z0-9-]{1,63}", 2**22
ORDER = ("references", "versions", "emotions", "exemplars", "people")
_NAMES = {
    r"references/(?P<digest>[0-9a-f]{64})": max(checks.BYTES_MAX.values()),
    r"versions/(?P<version>[0-9]{10})": 2**16,
    r"emotions/(?P<generator>voice|face)/(?P<name>[a-z-]{1,63})": checks.EMOTION_BYTES_MAX,
    r"exemplars/[0-9]{6}": _LINES_BYTES_MAX,
    rf"people/(?P<person>[pc]-{_HANDLE})/(?P<lines>turns|risks)/[0-9]{{6}}": _LINES_BYTES_MAX,
    rf"people/(?P<person>[pc]-{_HANDLE})/clips/(?P<conversation>{_HANDLE})/[0-9]{{10}}-(?P<turn>{_HANDLE})"
    r"/(?P<clip>speech|video)": checks.CLIP_BYTES_MAX,
}
_PATTERNS = {re.compile(pattern): bytes_max for pattern, bytes_max in _NAMES.items()}


@dataclass(frozen=True)
class About:
    """`identity.json`: an identity at one version; `version` is the format's."""

    format: Literal["e3rg identity"]
    version: int
    id: str
    profile: Profile
    references: tuple[Reference, ...]
    grants: tuple[Grant, ...]
    emotion_bank: str
    identity_version: Annotated[int, Field(ge=1, le=VERSIONS_MAX)] = 1
    changed_at_s: Annotated[float, Field(ge=0, le=TIME_S_MAX)] | None = None

    def identity(self, name: str, generation: str, changed_at_s: float) -> Identity:
        """Return the identity that this describes."""
        files = tuple(replace(each, since=1) for each in self.references)  # Whatever is said of it there.
        version = self.identity_version, changed_at_s, generation
        return Identity(name, self.profile, files, self.grants, self.emotion_bank, *version)


@dataclass(frozen=True)
class SaidTurn:
    """A turn with its place in its conversation: "<place>-<turn>"."""

    placed: str
    turn: Turn


@dataclass(frozen=True)
class RaisedRisk:
    """A risk with the conversation that raised it."""

    conversation: str
    risk: Risk


SAID_TURNS, EXAMPLES, RAISED_RISKS = TypeAdapter(SaidTurn), TypeAdapter(Example), TypeAdapter(RaisedRisk)
_ABOUTS, _FORMATS = TypeAdapter(About), TypeAdapter(dict[str, object])


def bytes_max(name: str) -> int:
    """Return how large a member may be; refuse a name that no member has."""
    if name == ABOUT:
        return 2**20
    if (found := match(name)) is None:
        raise wrong(f"its member {name[:200]!a} is none that an export writes; remove it")
    return _PATTERNS[found.re]


def match(name: str) -> re.Match[str] | None:
    """Return what the name of a member says; None for `identity.json` and what may not be there."""
    return next((found for pattern in _PATTERNS if (found := pattern.fullmatch(name))), None)


def earlier(version: int) -> str:
    """Return the name of the member of an earlier version."""
    return f"versions/{version:010d}"


def user_of(person: str) -> tuple[str, str]:
    """Return kind and name of the user that a folder below `people/` is of."""
    return "user" if person.startswith("p-") else "conversation", person[2:]


def described(name: str, identity: Identity) -> Member:
    """Return the member that describes an identity at its version."""
    what = identity.id, identity.profile, identity.references, identity.grants, identity.emotion_bank
    about = About("e3rg identity", VERSION, *what, identity.version, identity.changed_at_s)
    return Member(name, _ABOUTS.dump_json(about, exclude={"references": {"__all__": {"since"}}}))


def check_described(name: str, who: About) -> None:
    """Refuse what no version of an identity can be; `name` is the member that says it."""
    checks.check(f"{name}.profile", who.profile)
    check_grants(f"{name}.grants", who.grants)
    field = f"{name}.references"
    checks.check_declared(field, who.references, whole=True)
    for place, each in enumerate(who.references):
        checks.check_digest(f"{field}[{place}].digest", each.digest)
    if len({each.digest for each in who.references}) < len(who.references):
        raise InvalidRequest(field, "a file is there twice")
    checks.check_id(f"{name}.emotion_bank", who.emotion_bank)


def read_about(content: bytes, name: str = ABOUT) -> About:
    """Read `identity.json`, or the member `name` of an earlier version."""
    try:
        version = _FORMATS.validate_json(content).get("version")
        if isinstance(version, int) and version > VERSION:
            raise wrong(f"{name} is of version {version}, this memory reads {VERSION}; use the version that wrote it")
        return _ABOUTS.validate_json(content)
    except ValidationError as error:
        raise _unreadable(name, error) from error


def read_lines(member: Member, kind: TypeAdapter[Any]) -> list[Any]:
    """Read a member of lines."""
    parts = member.content.split(b"\n")
    if parts.pop() or not 1 <= len(parts) <= LINES_MAX:
        raise wrong(f"its member {member.name!r} has not 1 to {LINES_MAX} whole lines")
    try:
        return [kind.validate_json(part) for part in parts]
    except ValidationError as error:
        raise _unreadable(member.name, error) from error


def in_lines(folder: str, lines: Iterator[bytes], number: int = 0) -> Iterator[Member]:
    """Yield members with so many lines that none is large."""
    held: list[bytes] = []
    for line in lines:
        held.append(line + b"\n")
        if len(held) == LINES_MAX or sum(map(len, held)) > LINES_BYTES:
            yield Member(f"{folder}{number:06d}", b"".join(held))
            held, number = [], number + 1
    if held:
        yield Member(f"{folder}{number:06d}", b"".join(held))


def _unreadable(name: str, error: ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False, include_input=False)[0]
    return wrong(f"its member {name!r} cannot be read: {'.'.join(map(str, first['loc']))}: {first['msg']}")


def wrong(problem: str) -> InvalidRequest:
    """Return the refusal of an archive."""
    return InvalidRequest("archive", problem)
