"""What a Dockerfile copies and installs is what the project declares; building one takes a container engine."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DOCKERFILES = sorted((ROOT / "services").glob("*/Dockerfile"))


def test_every_service_that_holds_a_model_has_an_image() -> None:
    assert [path.parent.name for path in DOCKERFILES] == ["mllm", "tts", "video"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_an_image_gets_all_that_the_wheel_is_built_of_and_nothing_else(path: Path) -> None:
    copied = {
        words
        for line in re.findall(r"^COPY (.+) \S+$", path.read_text("utf-8"), re.MULTILINE)
        for words in line.split()
    }
    packages = {
        str(name).removesuffix("/e3rg") for name in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    }
    assert copied == packages | {"pyproject.toml", "README.md", "LICENSE"}
    let_in = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert let_in[0] == "**"
    assert {line.removeprefix("!") for line in let_in if line.startswith("!")} == copied


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_an_image_runs_its_service_without_privileges(path: Path) -> None:
    content = path.read_text("utf-8")
    assert f'ENTRYPOINT ["python", "-m", "services.{path.parent.name}"]' in content
    assert re.search(r"^USER [1-9]\d+$", content, re.MULTILINE)


def test_an_environment_that_the_documents_name_is_an_extra() -> None:
    extras = set(PROJECT["project"]["optional-dependencies"])
    named = set(re.findall(r"\bmllm-[a-z0-9-]+", (ROOT / "docs/models.md").read_text("utf-8")))
    for path in (*DOCKERFILES, *(ROOT / "docs").glob("*.md")):
        named |= set(re.findall(r"EXTRA=([a-z0-9-]+)", path.read_text("utf-8")))
    assert {"mllm-qwen-omni", "mllm-ola", "tts-openvoice", "video-dice-talk"} <= named
    assert named <= extras, named - extras
