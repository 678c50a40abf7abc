"""The house rules that no other tool checks."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.panel.__main__ import _options as panel_options
from client.command import _parser

ROOT = Path(__file__).parents[2]
SERVICES = ("memory", "mllm", "tts", "understanding", "video")
PACKAGES = (
    "benchmarks",
    "client",
    "emotions",
    "images",
    "local",
    "models",
    "orchestrator",
    "perception",
    "services",
    "tests",
)
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("services/*/README.md"),
    ROOT / "orchestrator/README.md",
]


def _files(*suffixes: str) -> Iterator[Path]:
    """The project's own files: what is installed, fetched, generated or hidden is left out."""
    left_out = {"gen", "out", "build", "dist", "__pycache__"}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part != ".ci" for part in parts[:-1])
        if path.is_file() and not hidden and not left_out & set(parts) and path.suffix in (suffixes or (path.suffix,)):
            yield path


def _modules() -> Iterator[Path]:
    return (path for path in _files(".py") if path.relative_to(ROOT).parts[0] in PACKAGES)


every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def test_the_readme_names_the_two_commands_that_a_newcomer_needs() -> None:
    assert {"demo", "test"} <= set(re.findall(r"^    make ([a-z-]+)", README, re.MULTILINE))


@every_document
def test_the_targets_that_a_document_names_are_in_the_makefile(path: Path) -> None:
    named = re.findall(r"(?:^    |`)make ((?:[a-z0-9_-]+ ?)+)", path.read_text("utf-8"), re.MULTILINE)
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    there |= {f"test-models-{path.parent.name}" for path in (ROOT / "tests" / "models").glob("*/requirements.txt")}
    assert {target for targets in named for target in targets.split()} <= there


@every_document
def test_the_programs_that_a_document_names_are_there(path: Path) -> None:
    for name in re.findall(r"\bpython -m ([a-z_.0-9]+[a-z_0-9])\b(?![.<])", path.read_text("utf-8")):
        place = ROOT.joinpath(*name.split("."))
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), name


@every_document
def test_the_benchmark_understands_what_a_document_asks_of_it(path: Path) -> None:
    for words in re.findall(r"^    python -m benchmarks\.panel (.+)$", path.read_text("utf-8"), re.MULTILINE):
        panel_options(shlex.split(words))


def test_the_commands_that_the_readme_names_are_understood() -> None:
    joined = README.replace("\\\n", " ")
    commands = [shlex.split(line)[1:] for line in re.findall(r"^    (\.venv/bin/e3rg .+)$", joined, re.MULTILINE)]
    assert commands
    for words in commands:
        assert callable(_parser().parse_args(words).run), words


@every_document
def test_a_file_that_a_document_points_to_is_there(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
        assert target.startswith("https://") or (path.parent / target).exists(), target


@pytest.mark.parametrize("path", sorted((ROOT / "protos").rglob("*.proto")), ids=lambda path: path.stem)
def test_the_folder_of_a_contract_is_its_package(path: Path) -> None:
    package = re.search(r"^package ([a-z0-9.]+);$", path.read_text("utf-8"), re.MULTILINE)
    assert package
    folder = path.parent.relative_to(ROOT / "protos")
    assert package[1] == ".".join(folder.parts)
    _, service, _ = folder.parts
    assert folder.parts == ("e3rg", service, "v1")
    assert (path.parent / f"{service}.proto").is_file()


@pytest.mark.parametrize("service", SERVICES)
def test_who_has_seen_one_service_has_seen_them_all(service: str) -> None:
    folder = ROOT / "services" / service
    for name in ("__init__", "__main__", "settings", "domain", "servicer"):
        assert (folder / f"{name}.py").is_file(), name
    assert (ROOT / "protos" / "e3rg" / service / "v1" / f"{service}.proto").is_file()
    # The panel asks models and has none; the memory has none either.
    assert (folder / "backends" / "__init__.py").is_file() == (service not in ("memory", "understanding"))
    settings = (folder / "settings.py").read_text("utf-8")
    assert f'env_prefix="E3RG_{service.upper()}_"' in settings
    servicer = (folder / "servicer.py").read_text("utf-8")
    base = f"{service}_pb2_grpc.{service.capitalize()}ServiceServicer"
    # The memory serves its five contracts by a table.
    named = "class Servicer:" if service == "memory" else f"class {service.capitalize()}Servicer({base}):"
    assert named in servicer


def test_there_is_no_service_that_these_rules_do_not_know() -> None:
    folders = {path.name for path in (ROOT / "services").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {*SERVICES, "common"}


def test_the_name_of_an_import_is_the_path_from_the_root() -> None:
    wrong = []
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                place = ROOT.joinpath(*(node.module or "").split("."))
                ours = (node.module or "").split(".")[0] in PACKAGES
                if node.level or (ours and not (place.is_dir() or place.with_suffix(".py").is_file())):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {'.' * node.level}{node.module or ''}")
    assert wrong == []


def test_a_module_is_named_by_what_it_is() -> None:
    vague = {"utils", "util", "helpers", "helper", "base", "core", "manager", "handler", "impl", "misc"}
    # What stands in for others' code has the names that theirs has.
    ours = [path for path in _modules() if "standin" not in path.parts]
    assert [path for path in ours if {path.stem, path.parent.name} & vague] == []


def test_nothing_names_a_place_on_someones_machine_or_a_package_registry() -> None:
    places = "|".join(["home", "root", "work", "Users"])
    # Named by shape: an index of packages, or a host that is called after what it serves.
    hosts = r"https?://(?:files|registry|index|proxy|deb|ftp|mirror\w*|py\w+|npm\w*|crates)\.|/simple/\w"
    forbidden = re.compile(rf"(?<![\w.~*}}])/(?:{places})/\w|{hosts}")
    found = []
    for path in _files():
        if path == Path(__file__):
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # not text
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
            for number, line in enumerate(text.splitlines(), 1)
            if forbidden.search(line)
        ]
    assert found == []


def test_no_test_patches_our_code_or_sleeps() -> None:
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        # What another process or a database does sends no event: there, and there only, a loop with a deadline may
        # look again.
        is_outside = not {"integration", "memory"}.isdisjoint(path.parts)
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)] if is_outside else []
        polls = {call for loop in loops for call in ast.walk(loop)}
        if "support" in path.parts:  # Servers and networks for tests: they wait for programs, and delay on purpose.
            polls = set(ast.walk(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "patch":
                found.append(f"{path.name}:{node.lineno}: patch")
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "sleep" and node not in polls:
                # A step of the event loop is not a sleep.
                found += [f"{path.name}:{node.lineno}: sleep"] * (ast.unparse(node.args[0]) != "0")
    assert found == []
