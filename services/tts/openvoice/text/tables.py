"""Reads the tables that MeloTTS keeps in its sources. They are parsed, never run; `make models` puts them there."""

import ast
from pathlib import Path
from typing import Final

FOLDER: Final = "melo"


def source(models_dir: Path, name: str) -> ast.Module:
    """Returns a source file of `make models`, parsed.

    Raises:
        FileNotFoundError: It is not there.
    """
    path = models_dir / FOLDER / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; `make models` puts it there")
    return ast.parse(path.read_text("utf-8"))


def assigned(module: ast.Module, name: str) -> object:
    """Returns the constant that a source assigns to `name`, or to an attribute of that name.

    Raises:
        ValueError: It assigns none.
    """
    for node in ast.walk(module):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            if name == (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")):
                return ast.literal_eval(node.value)
    raise ValueError(f"no constant {name!r} in it; run `make models`")
