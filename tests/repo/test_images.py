"""What the Dockerfile copies and installs is what the project declares; building an image takes a container engine."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
SERVICE, *IMAGES = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
MODULES = {
    **{path.parent.name: f"services.{path.parent.name}" for path in (ROOT / "services").glob("*/__main__.py")},
    "orchestrator": "orchestrator",
}


def test_an_image_gets_all_that_the_wheel_is_built_of_and_nothing_else() -> None:
    copied = dict(re.findall(r"^COPY (.+) (\S+)$", DOCKERFILE, re.MULTILINE))
    metadata = {"pyproject.toml": "/src/", "README.md LICENSE": "/srv/"}
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    # The name of an import is the path from /srv.
    assert copied == metadata | {package: f"/srv/{Path(package).name}" for package in packages}
    let_in = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert let_in[0] == "**"
    asked = {word for words in copied for word in words.split()}
    assert {line.removeprefix("!") for line in let_in if line.startswith("!")} == asked


def test_every_service_has_an_image_that_starts_it_without_privileges() -> None:
    start = r'\["tini", "--", "python", "-m", "([\w.]+)"\]'
    entry = re.compile(rf"^service AS (\w+)\n.*^ENTRYPOINT {start}$", re.DOTALL | re.MULTILINE)
    started = {name: module for image in IMAGES for name, module in entry.findall(image)}
    assert len(started) == len(IMAGES)
    assert started == MODULES
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == ["10001"]


@pytest.mark.parametrize("service", sorted(MODULES))
def test_a_setting_of_an_image_is_one_of_its_service(service: str) -> None:
    (image,) = (image for image in IMAGES if image.startswith(f"service AS {service}\n"))
    assert {name.split("_")[1].lower() for name in re.findall(r"\bE3RG_\w+", image)} <= {service}


def test_an_environment_that_the_documents_name_is_an_extra() -> None:
    extras = set(PROJECT["project"]["optional-dependencies"])
    named = set(re.findall(r"\bmllm-[a-z0-9-]+", (ROOT / "docs/models.md").read_text("utf-8")))
    for path in (ROOT / "Dockerfile", *(ROOT / "docs").glob("*.md")):
        named |= set(re.findall(r"EXTRA=([a-z0-9-]+)", path.read_text("utf-8")))
    assert {"mllm-qwen-omni", "mllm-ola", "tts-openvoice", "video-dice-talk"} <= named
    assert named <= extras, named - extras
