"""Checkpoints that the project does not distribute: which files they are, and a copy from a bucket or a volume."""

import hashlib
import json
import os
import tomllib
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.error import URLError
from urllib.parse import quote

from models.fetch import ModelError, ModelFile

CHUNK_BYTES = 1 << 20
TIMEOUT_S = 60.0
WEB = ("https://", "http://")
AUTHORIZATION = "E3RG_MODELS_AUTHORIZATION"
"""Variable with the header that a bucket asks for, for instance `Bearer …`."""


def read(path: Path) -> list[ModelFile]:
    """Read a manifest: a TOML list `file` of `path`, `size_bytes` and `sha256`.

    Raises:
        ModelError: It cannot be read, or names a place outside of the folder.
    """
    try:
        rows = tomllib.loads(path.read_text("utf-8"))["file"]
        files = [ModelFile(row["path"], (), row["size_bytes"], row["sha256"], "", "") for row in rows]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is no manifest of checkpoints: {error!r}") from error
    for file in files:
        place = PurePosixPath(file.path)
        if place.is_absolute() or ".." in place.parts:
            raise ModelError(f"{path}: {file.path} lies outside of the folder")
    return files


def describe(folder: Path) -> Iterator[str]:
    """Yield the lines of the manifest of all files in a folder."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        # TOML writes a string as JSON does.
        yield f"[[file]]\npath = {json.dumps(path.relative_to(folder).as_posix(), ensure_ascii=False)}"
        yield f'size_bytes = {path.stat().st_size}\nsha256 = "{digest}"\n'


def copy(folder: Path, source: str, report: Callable[[str], None], files: Iterable[ModelFile]) -> None:
    """Put every file that a folder lacks, or holds altered, into it.

    Args:
        folder: Folder of the checkpoints; made when absent.
        source: A folder, or the address of one in a bucket, in which the files have the manifest's paths.
        report: Is told one line per file.
        files: What to copy.

    Raises:
        ModelError: A file is missing or altered there. The files that were right before stay.
    """
    for file in files:
        if file.is_at(folder):
            continue
        report(f"models: {file.path} ({file.size_bytes / 1e6:.0f} MB)")
        target = folder / file.path
        partial = target.with_name(target.name + ".partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _opened(source, file.path) as content, partial.open("wb") as whole:
                found = _copied(content, whole)
            if found != file.sha256:
                what = f"SHA-256 is {found}, the manifest says {file.sha256}"
                raise ModelError(f"{file.path}: altered in {source}: {what}")
            os.replace(partial, target)
        except (OSError, URLError) as error:
            raise ModelError(f"{file.path}: cannot be copied from {source}: {error}") from error
        finally:
            partial.unlink(missing_ok=True)
    report(f"models: every file is in {folder} and unaltered")


def _opened(source: str, path: str) -> BinaryIO:
    if not source.startswith(WEB):
        return Path(source, path).open("rb")
    headers = {"Authorization": os.environ[AUTHORIZATION]} if AUTHORIZATION in os.environ else {}
    request = urllib.request.Request(f"{source.rstrip('/')}/{quote(path)}", headers=headers)
    content: BinaryIO = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    return content


def _copied(content: BinaryIO, whole: BinaryIO) -> str:
    """Copy a file; return its SHA-256."""
    total = hashlib.sha256()
    while chunk := content.read(CHUNK_BYTES):
        total.update(chunk)
        whole.write(chunk)
    return total.hexdigest()
