"""The versioned prompt files. The name of a file is its version, and stands on record with every vote and reply."""

import tomllib
from fnmatch import fnmatchcase
from importlib import resources
from typing import Any


def content_of(version: str, kind: str, setting: str) -> dict[str, Any]:
    """Returns what stands in the prompt file called `version`.

    Args:
        version: Its name.
        kind: Pattern of the names of all files of this kind ("vote-*").
        setting: The environment variable that names the file.

    Raises:
        ValueError: There is no such file; the message names the setting and the files of this kind.
    """
    folder = resources.files(__name__)
    names = (file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    known = sorted(name for name in names if fnmatchcase(name, kind))
    if version not in known:
        raise ValueError(f"{setting} is {version!r}; it must be one of: {', '.join(known)}")
    return tomllib.loads(folder.joinpath(f"{version}.toml").read_text("utf-8"))
