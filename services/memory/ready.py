"""Reads the identities that come with the project: people who do not exist, one folder each in `identities/`."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from services.memory.domain import File, Grant, NewIdentity, Profile, ReferenceKind

FOLDER = Path(__file__).parent / "identities"


def ready_identities(folder: Path = FOLDER) -> Iterator[NewIdentity]:
    """Yields an identity for each folder with a `profile.toml`, by name.

    Raises:
        OSError: A portrait or a voice is missing.
        KeyError: A profile has no permissions.
        TypeError: A profile or a permission lacks a key, or has one that none has.
        tomllib.TOMLDecodeError: A profile is not TOML.
    """
    for path in sorted(folder.glob("*/profile.toml")):
        profile = tomllib.loads(path.read_text("utf-8"))
        grants = profile.pop("grants")
        yield NewIdentity(
            id=path.parent.name,
            profile=Profile(**profile),
            # TOML has dates of its own.
            grants=tuple(Grant(**{key: str(value) for key, value in grant.items()}) for grant in grants),
            files=(
                File(ReferenceKind.PORTRAIT, (path.parent / "portrait.png").read_bytes()),
                File(ReferenceKind.VOICE, (path.parent / "voice.wav").read_bytes()),
            ),
        )


def file_of(identity: NewIdentity, kind: ReferenceKind) -> bytes:
    """Returns the first file of that kind.

    Raises:
        StopIteration: There is none.
    """
    return next(file.content for file in identity.files if file.kind is kind)
