"""What the documents say of the back-ends of mllm is what stands in their source, which is read and not imported."""

import ast
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MLLM = ROOT / "services" / "mllm"
BACKENDS = {path.stem: path for path in sorted((MLLM / "backends").glob("*.py")) if path.stem != "__init__"}
README = (MLLM / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "models.md").read_text("utf-8")
SECTIONS = {title: text for title, _, text in (part.partition("\n") for part in re.split(r"^##+ ", PAGE, flags=re.M))}
EVERY_CHAT = "For every chat model"


def _fields(path: Path, settings: str = "Settings") -> dict[str, float | None]:
    """Returns the fields of a settings class, named as environment variables, with the default if it is a number."""
    module = ast.parse(path.read_text("utf-8")).body
    constants = {ast.unparse(row.targets[0]): row.value for row in module if isinstance(row, ast.Assign)}
    (found,) = (node for node in module if isinstance(node, ast.ClassDef) and node.name == settings)
    rows = [row for row in found.body if isinstance(row, ast.AnnAssign)]
    return {ast.unparse(row.target).upper(): _number(row.value, constants) for row in rows}


def _number(value: ast.expr | None, constants: Mapping[str, ast.expr]) -> float | None:
    match value:
        case ast.Call(func=ast.Name("Field")):
            return _number(next((each.value for each in value.keywords if each.arg == "default"), None), constants)
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(name) if name in constants:
            return _number(constants[name], constants)
        case ast.BinOp(left, ast.Mult(), right):
            numbers = [_number(side, constants) for side in (left, right)]
            return math.prod(number for number in numbers if number is not None)
    return None


CHAT = _fields(MLLM / "chat" / "settings.py", "ChatSettings")
SERVICE = _fields(ROOT / "services" / "common" / "settings.py", "ServiceSettings") | _fields(
    MLLM / "settings.py", "MllmSettings"
)
FIELDS = {name: _fields(path) for name, path in BACKENDS.items()}
CHAT_MODELS = [name for name, path in BACKENDS.items() if "class Settings(ChatSettings)" in path.read_text("utf-8")]
EMBEDDED = [name for name in BACKENDS if name not in CHAT_MODELS]


def _named(text: str) -> set[str]:
    """Returns the settings that a text names; in a table, those of the first column."""
    lines = (line.split("|")[1] if line.startswith("|") else line for line in text.splitlines())
    words = re.findall(r"`(?:E3RG_MLLM_)?([A-Z][A-Z_]+)[`=]|\bE3RG_MLLM_([A-Z_]+)", "\n".join(lines))
    named = {one or other for one, other in words}
    return {name for name in named if name and not name.startswith("HF_")}  # those are of a library


def _numbers(text: str) -> Iterator[tuple[str, float]]:
    """Yields the settings whose default a text gives as a number: "`NAME` (1,000)", or in the second column."""
    pairs = re.findall(r"`([A-Z_]+)` \((\d[\d,.]*)\)", text)
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) > 2:
            names, defaults = re.findall(r"`([A-Z_]+)`", cells[0]), cells[1].split(", ")
            pairs += [(name, value.strip("`")) for name, value in zip(names, defaults, strict=False)]
    number = re.compile(r"\d[\d,]*(\.\d+)?")
    return ((name, float(value.replace(",", ""))) for name, value in pairs if number.fullmatch(value))


def test_every_back_end_is_named() -> None:
    assert not [name for name in BACKENDS if f"`{name}`" not in README]
    assert set(CHAT_MODELS) <= SECTIONS.keys()
    assert {"mpnet", "smollm2", "text_classifier", "voice", "face"} == set(EMBEDDED)


def test_a_command_starts_a_back_end_that_there_is() -> None:
    started = re.findall(r"E3RG_MLLM_BACKEND=(\w+)", PAGE + README)
    assert started
    assert set(started) <= BACKENDS.keys()


@pytest.mark.parametrize("name", CHAT_MODELS)
def test_the_page_of_a_chat_model_names_its_settings_and_no_others(name: str) -> None:
    named = _named(SECTIONS[name])
    assert FIELDS[name].keys() - named == set()
    assert named - (FIELDS[name] | CHAT | SERVICE).keys() == set()


def test_what_every_chat_model_can_be_told_stands_at_one_place() -> None:
    assert _named(SECTIONS[EVERY_CHAT]) == CHAT.keys()


def test_the_readme_names_the_settings_of_the_service_and_of_the_embedded_models_and_no_others() -> None:
    own = {field for name in EMBEDDED for field in FIELDS[name]}
    assert _named(README) == own | SERVICE.keys()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        *((SECTIONS.get(name, ""), FIELDS[name]) for name in CHAT_MODELS),
        (SECTIONS.get(EVERY_CHAT, ""), CHAT),
        (README, SERVICE),
    ],
    ids=[*CHAT_MODELS, EVERY_CHAT, "README"],
)
def test_a_number_that_is_given_as_a_default_is_the_default(text: str, fields: Mapping[str, float | None]) -> None:
    numbers = dict(_numbers(text))
    assert numbers
    assert numbers == {name: fields[name] for name in numbers}
