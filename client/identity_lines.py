"""Tells a person who an identity is, and what was different before."""

from collections.abc import Iterator

from client.terminal import moment
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as pb

KINDS = {
    pb.REFERENCE_KIND_PORTRAIT: "portrait",
    pb.REFERENCE_KIND_VOICE: "voice",
    pb.REFERENCE_KIND_FILM: "film",
}
DIGEST_CHARS = 12
"""Of a file's digest, enough to name it among an identity's 16."""

_PROFILE = ("name", "age", "gender", "timbre", "language", "about", "speaking_style")


def identity_lines(identity: pb.Identity) -> Iterator[str]:
    """Yields all there is about a version of an identity but its number and its files' content."""
    profile = identity.profile
    yield f"{identity.id}: {profile.name}, {profile.age}, {profile.gender}, {profile.timbre} voice, {profile.language}"
    if profile.about:
        yield f"about      {profile.about}"
    if profile.speaking_style:
        yield f"speaks     {profile.speaking_style}"
    yield f"bank       {identity.emotion_bank or 'default'}"
    yield from (f"allowed    {_grant(grant)}" for grant in identity.grants)
    if not identity.grants:
        yield "allowed    nothing"
    for reference in identity.references:
        yield f"{_kind(reference):10} {reference.digest[:DIGEST_CHARS]}  {reference.size_bytes} bytes"


def version_of(identity: pb.Identity) -> str:
    """Which version of an identity it is."""
    return f"{identity.version}, of {moment(identity.changed_at_s)}"


def difference(before: pb.Identity, after: pb.Identity) -> Iterator[str]:
    """Yields what is other in `after` than in `before`."""
    old, new = before.profile, after.profile
    for field in _PROFILE:
        was, became = _field(old, field), _field(new, field)
        if was != became:
            yield f"{field.replace('_', ' ')}: {was or 'none'} -> {became or 'none'}"
    was, became = before.emotion_bank or "default", after.emotion_bank or "default"
    if was != became:
        yield f"bank: {was} -> {became}"
    allowed, allows = ({grant.use: grant for grant in each.grants} for each in (before, after))
    yield from (f"took back {use}" for use in allowed if use not in allows)
    yield from (f"allowed {_grant(grant)}" for use, grant in allows.items() if allowed.get(use) != grant)
    had, has = ({file.digest: file for file in each.references} for each in (before, after))
    yield from (f"removed {_file(file)}" for digest, file in had.items() if digest not in has)
    yield from (f"added {_file(file)}" for digest, file in has.items() if digest not in had)


def _field(profile: common.Profile, field: str) -> str:
    value: str = getattr(profile, field)
    return value


def _grant(grant: pb.Grant) -> str:
    facts = [f"{grant.use} on {grant.granted_on} by {grant.granted_by}"]
    facts += [f"until {grant.until}"] if grant.until else []
    facts += [f"for {grant.purpose}"] if grant.purpose else []
    return ", ".join(facts)


def _file(reference: pb.Reference) -> str:
    return f"{_kind(reference)} {reference.digest[:DIGEST_CHARS]}"


def _kind(reference: pb.Reference) -> str:
    return KINDS.get(reference.kind, f"kind {reference.kind}")
