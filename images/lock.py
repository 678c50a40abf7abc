"""`python -m images.lock`: lock what the images install to exact versions and digests.

Each file names what its extra of `pyproject.toml` adds to `service.txt`, which every image has: two files of one image
share no package, and images share the layer of the first.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "requirements"
SHARED = "service"
# What builds the packages that have no wheel.
TOOLS, TOOLS_ASKED = "build", ["setuptools>=80,<90", "wheel>=0.45,<1"]
# No image: sets of extras, or a part of one.
NOT_LOCKED = {"all", "bench", "dev", "mllm-chat", SHARED}
# Their publishers have no wheels; everything else is installed without running a package's own code.
SOURCE_ONLY = ("docopt", "eng-to-ipa", "gruut-lang-es", "gruut-lang-fr", "jieba", "openai-whisper", "unidic-lite")
# Weights never come from a hub; faster-whisper is given samples and reads no files.
OMITTED = {"": ("hf-xet",), "mllm-voice": ("av",)}
# uv ignores a package's upper bound on Python: later releases of the first are for Python 3.10. The others are what
# `make test-models` runs.
CONSTRAINTS = "backports-strenum<1.3\naccelerate==1.15.0\ntorch==2.13.0\n"
# Debian 12 has glibc 2.36; Python is that of the base image.
TARGET = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_36")
OWN_EXTRA = re.compile(r"e3rg\[([\w,-]+)\]")
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)(?:\[[\w,-]+\])?==(\S+)", re.MULTILINE)


def declared(project: Mapping[str, object], extra: str) -> list[str]:
    """Return all that an extra asks for, of itself or by another extra, sorted."""
    if extra == TOOLS:
        return TOOLS_ASKED
    content = project["project"]
    assert isinstance(content, dict)
    extras: Mapping[str, list[str]] = content["optional-dependencies"]

    def of(names: Iterable[str]) -> Iterable[str]:
        for requirement in names:
            if found := OWN_EXTRA.fullmatch(requirement):
                for name in found[1].split(","):
                    yield from of(extras[name])
            else:
                yield requirement

    return sorted({*content["dependencies"], *of(extras[extra])})


def locked_extras(project: Mapping[str, object]) -> list[str]:
    """Return what is locked: the shared extra first, the tools, the extras that have images."""
    content = project["project"]
    assert isinstance(content, dict)
    return [SHARED, TOOLS, *(name for name in content["optional-dependencies"] if name not in NOT_LOCKED)]


def head(extra: str, requirements: Sequence[str], pins: str) -> str:
    """Return the first lines of a file: what was asked for, and the options that pip needs for the pins."""
    added = "" if extra == SHARED else f", without what is in {SHARED}.txt"
    title = f"# Locked by `make requirements`{added}. Asked for, by pyproject.toml:"
    asked = [f"#   {requirement}" for requirement in requirements]
    options = ["--only-binary :all:"]
    options += [f"--no-binary {name}" for name, _ in PIN.findall(pins) if name in SOURCE_ONLY]
    return "\n".join([title, *asked, *options]) + "\n"


def lock(project: Mapping[str, object], extra: str, upgrade: Sequence[str]) -> None:
    """Write the file of an extra. Versions that were locked before stay unless they do not fit or are to be upgraded.

    Args:
        project: Content of `pyproject.toml`.
        extra: Name of the extra.
        upgrade: Options for uv.

    Raises:
        subprocess.CalledProcessError: There are no such versions, or no registry; uv has said so.
    """
    requirements = declared(project, extra)
    target = FOLDER / f"{extra}.txt"
    options = ["--only-binary", ":all:", *(part for name in SOURCE_ONLY for part in ("--no-binary", name))]
    for name in (*OMITTED[""], *OMITTED.get(extra, ())):
        options += ["--no-emit-package", name]
    if extra != SHARED:
        shared = FOLDER / f"{SHARED}.txt"
        options += ["--constraint", str(shared)]
        for name, _ in PIN.findall(shared.read_text("utf-8")):
            options += ["--no-emit-package", name]
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / target.name
        constraints = Path(scratch) / "constraints.txt"
        constraints.write_text(CONSTRAINTS, "utf-8")
        if target.exists():
            output.write_bytes(target.read_bytes())
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config", "--generate-hashes"]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", *TARGET, *options, *upgrade]
        command += ["--constraint", str(constraints), "--output-file", str(output), "-"]
        subprocess.run(command, input="\n".join(requirements), text=True, check=True, stdout=subprocess.DEVNULL)
        lines = output.read_text("utf-8").splitlines(keepends=True)
    pins = "".join(line for line in lines if not line.startswith("#"))
    target.write_text(head(extra, requirements, pins) + pins, "utf-8")


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m images.lock", description=__doc__)
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="lock these only (default: all)")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that pyproject.toml allows")
    parser.add_argument("--upgrade-package", action="append", default=[], metavar="NAME", help="only of this package")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    upgrade = ["--upgrade"] if arguments.upgrade else []
    upgrade += [part for name in arguments.upgrade_package for part in ("--upgrade-package", name)]
    for extra in arguments.extras or locked_extras(project):
        try:
            lock(project, extra, upgrade)
        except subprocess.CalledProcessError as error:
            return error.returncode
        print(f"images/requirements/{extra}.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
