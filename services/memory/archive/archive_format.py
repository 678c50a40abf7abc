"""What an archive of an identity holds, and under which names.

What models made is not in it, vectors as little as what was derived from files: it is made anew, and an archive that
somebody has altered cannot bring in anything that a model would take for its own.

    identity.json                              who it is, what was allowed, which files it has; always the first
    references/<digest>                        its files; before all others
    versions/<number>                          the same of each earlier version, from 1; before what follows
    emotions/<generator>/<name>                its own emotional references; before what follows
    exemplars/<number>                         examples of how it answers, a line of JSON each
    people/<person>/turns/<number>             what was said, oldest first: a line of JSON each turn, with its place
    people/<person>/clips/<conversation>/<place>-<turn>/<kind>   generated speech and video

A person is "p-<handle>", or "c-<conversation>" for somebody who is known in one conversation only; all that is of one
stands together, turns before clips.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from services.common.errors import InvalidRequest
from services.memory.domain import Exemplar, Grant, Identity, Profile, ReferenceKind, Turn
from services.memory.registry.emotion_references import BYTES_MAX as EMOTION_BYTES_MAX
from services.memory.registry.file_checks import BYTES_MAX
from services.memory.talks.clips import CLIP_BYTES_MAX

VERSION = 2
"""1 had no earlier versions: an identity out of such an archive begins at version 1."""
ABOUT = "identity.json"

VERSIONS_MAX = 10_000
"""Most versions of an identity in an archive: each is an object that is read, or written, on its own."""

TIME_S_MAX = 1e11
"""Nothing was said or changed later: Unix time, of the year 5138."""

LINES_BYTES = 2**20
"""A member of lines ends when it has so many bytes."""
LINES_MAX = 200
"""Or so many lines: they are embedded at once."""

_LINES_BYTES_MAX = 2**22
"""A line is at most two texts of 32,000 characters, a vote record, and little else."""
_ABOUT_BYTES_MAX = 2**20
_EARLIER_BYTES_MAX = 2**16
"""Four permissions, 16 files and a profile, all of the longest texts, are 20 KB."""

_DIGEST = "[0-9a-f]{64}"
_HANDLE = "[A-Za-z0-9-]{1,63}"
_NAMES = {
    rf"references/(?P<digest>{_DIGEST})": max(BYTES_MAX.values()),
    r"versions/(?P<version>[0-9]{10})": _EARLIER_BYTES_MAX,
    r"emotions/(?P<generator>voice|face)/(?P<name>[a-z-]{1,63})": EMOTION_BYTES_MAX,
    r"exemplars/[0-9]{6}": _LINES_BYTES_MAX,
    rf"people/(?P<person>[pc]-{_HANDLE})/turns/[0-9]{{6}}": _LINES_BYTES_MAX,
    (
        rf"people/(?P<person>[pc]-{_HANDLE})/clips/(?P<conversation>{_HANDLE})/(?P<placed>[0-9]{{10}}-{_HANDLE})"
        r"/(?P<clip>speech|video)"
    ): CLIP_BYTES_MAX,
}
_PATTERNS = {re.compile(pattern): bytes_max for pattern, bytes_max in _NAMES.items()}


@dataclass(frozen=True)
class File:
    """A file that the archive has."""

    digest: str
    size_bytes: int
    kind: ReferenceKind


@dataclass(frozen=True)
class About:
    """Who is in the archive, or was at an earlier version. `version` is the format's; times are Unix time."""

    format: Literal["e3rg identity"]
    version: int
    id: str
    profile: Profile
    references: tuple[File, ...]
    grants: tuple[Grant, ...]
    emotion_bank: str
    identity_version: Annotated[int, Field(ge=1, le=VERSIONS_MAX)] = 1
    changed_at_s: Annotated[float, Field(ge=0, le=TIME_S_MAX)] | None = None

    @classmethod
    def of(cls, identity: Identity) -> "About":
        """Returns what an archive says of an identity."""
        return cls(
            "e3rg identity",
            VERSION,
            identity.id,
            identity.profile,
            tuple(File(each.digest, each.size_bytes, each.kind) for each in identity.references),
            identity.grants,
            identity.emotion_bank,
            identity.version,
            identity.changed_at_s,
        )


@dataclass(frozen=True)
class Said:
    """A turn, with its conversation, and its place in that: "<place>-<turn>"."""

    placed: str
    turn: Turn


ABOUTS = TypeAdapter(About)
SAID = TypeAdapter(Said)
EXEMPLARS = TypeAdapter(Exemplar)
_VERSIONS = TypeAdapter(dict[str, object])


def about(content: bytes, name: str = ABOUT) -> About:
    """Reads `identity.json`, or the member `name` that tells of an earlier version.

    Raises:
        InvalidRequest: It is none, or that of a newer version.
    """
    try:
        version = _VERSIONS.validate_json(content).get("version")
        if isinstance(version, int) and version > VERSION:
            raise InvalidRequest(
                "archive",
                f"{name} is of version {version}, this memory reads {VERSION}; use the version that wrote it",
            )
        return ABOUTS.validate_json(content)
    except ValidationError as error:
        raise _unreadable(name, error) from error


def lines(name: str, content: bytes, kind: TypeAdapter[Said] | TypeAdapter[Exemplar]) -> list[Said | Exemplar]:
    """Reads a member of lines.

    Raises:
        InvalidRequest: It is none.
    """
    parts = content.split(b"\n")
    if parts.pop() or not 1 <= len(parts) <= LINES_MAX:
        raise InvalidRequest("archive", f"its member {name!r} has not 1 to {LINES_MAX} whole lines")
    try:
        return [kind.validate_json(part) for part in parts]
    except ValidationError as error:
        raise _unreadable(name, error) from error


def earlier(version: int) -> str:
    """Returns the name of the member that tells of an earlier version."""
    return f"versions/{version:010d}"


def match(name: str) -> re.Match[str] | None:
    """Returns what the name of a member says; None for `identity.json` and what may not be there."""
    return next((found for pattern in _PATTERNS if (found := pattern.fullmatch(name))), None)


def bytes_max(name: str) -> int:
    """Returns how large a member may be.

    Raises:
        InvalidRequest: No member has such a name.
    """
    if name == ABOUT:
        return _ABOUT_BYTES_MAX
    found = match(name)
    if found is None:
        raise InvalidRequest("archive", f"its member {name[:200]!a} is none that an export writes; remove it")
    return _PATTERNS[found.re]


def _unreadable(name: str, error: ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return InvalidRequest("archive", f"its member {name!r} cannot be read: {place}: {first['msg']}")
