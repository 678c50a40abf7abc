"""The images get the code and the packages that their services need; building one takes a container engine."""

import ast
import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from images import lock
from images.__main__ import EMBEDDED, ENGINES, Image, component, main

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = set(PROJECT["project"]["optional-dependencies"])
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
STAGES = {
    found[1]: found[2]
    for found in re.finditer(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.DOTALL | re.MULTILINE)
}
MODULES = {
    **{path.parent.name: f"services.{path.parent.name}" for path in (ROOT / "services").glob("*/__main__.py")},
    "orchestrator": "orchestrator",
    "weights": "models",
}
SERVED = sorted(MODULES.keys() - {"weights"})
OURS = {"client", "e3rg", "emotions", "images", "local", "models", "orchestrator", "perception", "services"}
FILES = sorted(lock.FOLDER.glob("*.txt"))


def imports_of(folder: Path) -> Iterator[str]:
    """Yields what the modules below a folder import of the project, but for what the images leave out."""
    for path in sorted(folder.rglob("*.py")):
        if "training" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)


def copied_into(stage: str) -> set[str]:
    return set(re.findall(r"^COPY --from=code /srv/(\S+) /srv/\S+$", STAGES["service"] + STAGES[stage], re.MULTILINE))


@pytest.mark.parametrize("service", SERVED)
def test_an_image_gets_the_code_that_its_service_imports_and_no_other(service: str) -> None:
    copied = copied_into(service)
    needed = {MODULES[service].replace(".", "/"), "services/__init__.py"}
    folders = [ROOT / MODULES[service].replace(".", "/")]
    while folders:
        for name in imports_of(folders.pop()):
            top, _, rest = name.partition(".")
            place = f"services/{rest.split('.')[0]}" if top == "services" and rest else top
            if top in OURS and place != "services" and place not in needed:
                needed.add(place)
                folders.append(ROOT / place)
    assert copied == needed


def test_the_context_holds_what_the_stages_copy_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert lines[0] == "**"
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    asked = {word for words in copied for word in words.split()}
    assert {word for word in asked if not word.startswith("images/requirements/")} | {"images/requirements"} == let_in


def test_every_service_has_an_image_that_starts_it_without_privileges() -> None:
    start = re.compile(r'^ENTRYPOINT \["tini", "--", "python3?", "-m", "([\w.]+)"\]$', re.MULTILINE)
    assert {stage: found[1] for stage, text in STAGES.items() if (found := start.search(text))} == MODULES
    for stage in ("service", "weights"):
        assert re.findall(r"^USER (.+)$", STAGES[stage], re.MULTILINE) == ["10001"]
    assert sorted(re.findall(r"^FROM service AS (\w+)$", DOCKERFILE, re.MULTILINE)) == SERVED
    assert {Image(component, "", "1").target for component in EMBEDDED} == MODULES.keys()


@pytest.mark.parametrize("component", EMBEDDED)
def test_an_image_says_what_it_is(component: str) -> None:
    command = Image(component, "", "1.0").build_command("buildah", "base", {"revision": "r", "source": "s"}, [])
    given = {option for previous, option in itertools.pairwise(command) if previous == "--label"}
    labels = {"title": f"e3rg-{component}", "version": "1.0", "revision": "r", "source": "s"}
    assert given == {f"org.opencontainers.image.{name}={value}" for name, value in labels.items()}
    assert "org.opencontainers.image.licenses=Apache-2.0" in STAGES["system"]


@pytest.mark.parametrize("service", SERVED)
def test_a_setting_of_an_image_is_one_of_its_service(service: str) -> None:
    assert {name.split("_")[1].lower() for name in re.findall(r"\bE3RG_\w+", STAGES[service])} <= {service}


def test_every_engine_understands_the_dockerfile() -> None:
    # buildah 1.28 has no `syntax`, no heredocs, and of the options of RUN and COPY only some.
    assert not re.search(r"^#\s*syntax\s*=|<<-?\s*[\"']?\w", DOCKERFILE, re.MULTILINE | re.IGNORECASE)
    options = set(re.findall(r"^(?:RUN|COPY|ADD|FROM) (--[a-z]+)", DOCKERFILE, re.MULTILINE))
    assert options == {"--from"}
    assert re.search(r"^ARG BASE=docker\.io/library/python:3\.11-slim-bookworm$", DOCKERFILE, re.MULTILINE)
    for engine in ENGINES:
        command = Image("tts-openvoice", "registry.example/team/", "1.0").build_command(engine, "base@sha256:0", {}, [])
        assert command[0] == engine
        assert command[-2:] == ["registry.example/team/e3rg-tts-openvoice:1.0", "."]
        assert {"tts", "EXTRA=tts-openvoice", "BASE=base@sha256:0"} <= set(command)


def test_an_environment_that_the_documents_name_is_an_extra_and_locked() -> None:
    named = set(re.findall(r"\bmllm-[a-z0-9-]+", (ROOT / "docs/models.md").read_text("utf-8")))
    for path in (ROOT / "Dockerfile", *(ROOT / "docs").glob("*.md")):
        named |= set(re.findall(r"EXTRA=([a-z0-9-]+)", path.read_text("utf-8")))
    assert {"mllm-qwen-omni", "mllm-ola", "tts-openvoice", "video-dice-talk"} <= named
    assert named <= EXTRAS, named - EXTRAS
    assert {path.stem for path in FILES} == set(lock.locked_extras(PROJECT))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_lock_is_as_fresh_as_the_project(path: Path) -> None:
    text = path.read_text("utf-8")
    asked = lock.declared(PROJECT, path.stem)
    assert text.startswith(lock.head(path.stem, asked, text)), "run `make requirements`"
    shared = (lock.FOLDER / f"{lock.SHARED}.txt").read_text("utf-8")
    pins = dict(lock.PIN.findall(text if path.stem == lock.TOOLS else shared + text))
    for requirement in map(Requirement, asked):
        if requirement.name not in (*lock.OMITTED[""], *lock.OMITTED.get(path.stem, ())):
            assert requirement.specifier.contains(pins[requirement.name]), requirement


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_lock_pins_by_digest_and_names_no_place(path: Path) -> None:
    text = path.read_text("utf-8")
    names = [name for name, _ in lock.PIN.findall(text)]
    pinned = re.findall(r"^\S+==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(pinned) == len(names) == len(set(names))
    assert "://" not in text
    assert not re.search(r"^-(?!-only-binary :all:$|-no-binary \S+$)", text, re.MULTILINE)
    if path.stem not in (lock.SHARED, lock.TOOLS):
        shared = (lock.FOLDER / f"{lock.SHARED}.txt").read_text("utf-8")
        assert not {name for name, _ in lock.PIN.findall(shared)} & set(names), "an image would have it twice"


def test_all_images_with_pytorch_need_the_same_driver() -> None:
    versions: dict[str, set[str]] = {name: set() for name in ("torch", "nvidia-cuda-runtime", "nvidia-cudnn-cu13")}
    for path in FILES:
        pins = dict(lock.PIN.findall(path.read_text("utf-8")))
        assert not [name for name in pins if re.search(r"-cu\d+$", name) and not name.endswith("-cu13")], path.name
        assert "flash-attn" not in pins
        if "torch" in pins:
            for name, found in versions.items():
                found.add(pins[name])
    assert {name: len(found) for name, found in versions.items()} == dict.fromkeys(versions, 1)
    for path in (ROOT / "tests/models").glob("*/requirements.txt"):
        tested = re.findall(r"^torch==(\S+)$", path.read_text("utf-8"), re.MULTILINE)
        assert set(tested) <= versions["torch"], "the images have what `make test-models` runs"
    (cuda,) = versions["nvidia-cuda-runtime"]
    assert cuda.startswith("13."), "the head of the Dockerfile says which driver is the least"
    assert "CUDA 13" in DOCKERFILE


def images_command(monkeypatch: pytest.MonkeyPatch, path: Path, *words: str) -> int:
    """Run `python -m images` where only the programs in `path` are installed."""
    monkeypatch.setattr("sys.argv", ["images", *words])
    monkeypatch.setenv("PATH", str(path))
    return main()


@pytest.mark.parametrize(
    ("words", "problem"),
    [((), f"none of {', '.join(ENGINES)} is installed"), (("--engine", "podman"), "podman is not installed")],
)
def test_an_engine_that_is_not_installed_is_told(
    words: tuple[str, ...],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert images_command(monkeypatch, tmp_path, *words, "tts") == 1
    assert capsys.readouterr().err == f"images: {problem}\n"


def test_a_push_to_nowhere_is_refused_with_the_variable_of_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        images_command(monkeypatch, tmp_path, "--push")
    assert ended.value.code == 2
    assert "--push needs --registry HOST/FOLDER, for make REGISTRY=HOST/FOLDER\n" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ttts", "mllm", "build", "service", "tts/openvoice"])
def test_a_component_that_is_none_is_refused_with_those_that_are(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        images_command(monkeypatch, tmp_path, name)
    assert ended.value.code == 2
    _, _, known = capsys.readouterr().err.strip().partition(f"{name!r} is unknown; known are: ")
    assert set(known.split(", ")) == {"weights", *lock.locked_extras(PROJECT)} - {lock.SHARED, lock.TOOLS}
    assert all(component(each) == each for each in EMBEDDED)
