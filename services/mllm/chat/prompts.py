"""The versioned prompt files of the chat models."""

import tomllib
from importlib import resources
from typing import Any


def content_of(version: str, kind: str, setting: str) -> dict[str, Any]:
    """Returns what stands in the prompt file called `version`.

    Args:
        version: Its name.
        kind: What the names of all files of this kind begin with ("emotion-").
        setting: The environment variable that names the file.

    Raises:
        ValueError: There is no such file; the message names the setting and the files of this kind.
    """
    folder = resources.files("services.mllm").joinpath("prompts")
    known = sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.startswith(kind))
    if version not in known:
        raise ValueError(f"{setting} is {version!r}; it must be one of: {', '.join(known)}")
    return tomllib.loads(folder.joinpath(f"{version}.toml").read_text("utf-8"))
