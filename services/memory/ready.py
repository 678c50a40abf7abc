"""Reads the identities that come with the project: people who do not exist, one folder each in `identities/`."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from services.memory.domain import Consent, NewIdentity, Profile

FOLDER = Path(__file__).parent / "identities"


def ready_identities(folder: Path = FOLDER) -> Iterator[NewIdentity]:
    """Yields an identity for each folder with a `profile.toml`, by name.

    Raises:
        OSError: A portrait or a voice is missing.
        KeyError: A profile lacks a key.
        tomllib.TOMLDecodeError: A profile is not TOML.
    """
    for path in sorted(folder.glob("*/profile.toml")):
        row = tomllib.loads(path.read_text("utf-8"))
        consent = row["consent"]
        yield NewIdentity(
            id=path.parent.name,
            profile=Profile(
                name=row["name"],
                age=row["age"],
                gender=row["gender"],
                timbre=row["timbre"],
                language=row["language"],
                about=row["about"],
            ),
            consent=Consent(
                granted_by=consent["granted_by"],
                granted_on=str(consent["granted_on"]),  # TOML has dates of its own
                uses=tuple(consent["uses"]),
            ),
            portrait=(path.parent / "portrait.png").read_bytes(),
            voice=(path.parent / "voice.wav").read_bytes(),
        )
