"""Checkpoints are copied from a folder or a bucket, checked by digest, and nothing else is."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from models import checkpoints
from models.__main__ import main
from models.fetch import ModelError

CONTENT = {"tiny 7B/model.safetensors": b"weights" * 1000, "tiny 7B/config.json": b"{}"}


def ignore(line: str) -> None:
    del line


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what it was asked with."""

    asked: list[str | None]

    def __init__(self, *arguments: object, asked: list[str | None], **options: object) -> None:
        self.asked = asked
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.asked.append(self.headers["Authorization"])
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for path, content in CONTENT.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


@pytest.fixture
def manifest(tmp_path: Path, source: Path) -> Path:
    path = tmp_path / "manifest.toml"
    path.write_text("\n".join(checkpoints.describe(source)), "utf-8")
    return path


@pytest.fixture
def asked() -> list[str | None]:
    return []


@pytest.fixture
def bucket(source: Path, asked: list[str | None]) -> Iterator[str]:
    handler = partial(QuietHandler, directory=str(source), asked=asked)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def run(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["models", *map(str, words)])
    return main()


def test_a_manifest_describes_each_file_of_a_folder(manifest: Path) -> None:
    rows = {file.path: file for file in checkpoints.read(manifest)}
    assert rows.keys() == CONTENT.keys()
    for path, content in CONTENT.items():
        assert rows[path].sha256 == hashlib.sha256(content).hexdigest()
        assert rows[path].size_bytes == len(content)


@pytest.mark.parametrize(("name", "what"), [("nowhere", "missing"), ("file", "a file")])
def test_what_is_no_folder_is_not_described(
    tmp_path: Path, name: str, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "--describe", tmp_path / name)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: --describe: {tmp_path / name} is {what}; name a folder\n")


def test_the_command_copies_from_a_folder_once(
    tmp_path: Path, source: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--manifest", manifest, "--from", source, "--to", tmp_path / "to")
    assert run(monkeypatch, *words) == 0
    assert "model.safetensors" in capsys.readouterr().out
    assert {path: (tmp_path / "to" / path).read_bytes() for path in CONTENT} == CONTENT
    assert run(monkeypatch, *words) == 0
    assert "model.safetensors" not in capsys.readouterr().out


def test_a_bucket_is_read_with_the_header_that_it_asks_for(
    tmp_path: Path, bucket: str, asked: list[str | None], manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(checkpoints.AUTHORIZATION, "Bearer secret")
    checkpoints.copy(tmp_path / "to", bucket, ignore, checkpoints.read(manifest))
    assert {path: (tmp_path / "to" / path).read_bytes() for path in CONTENT} == CONTENT
    assert asked == ["Bearer secret"] * len(CONTENT)


def test_an_altered_file_is_refused_and_leaves_nothing(tmp_path: Path, source: Path, manifest: Path) -> None:
    (source / "tiny 7B/config.json").write_bytes(b"{!")
    with pytest.raises(ModelError, match=r"config\.json: altered in"):
        checkpoints.copy(tmp_path / "to", str(source), ignore, checkpoints.read(manifest))
    assert [path.name for path in (tmp_path / "to").rglob("*") if path.is_file()] == []


def test_a_file_that_the_bucket_lacks_is_named(tmp_path: Path, source: Path, bucket: str, manifest: Path) -> None:
    (source / "tiny 7B/config.json").unlink()
    with pytest.raises(ModelError, match=r"config\.json: cannot be copied from http.*404"):
        checkpoints.copy(tmp_path / "to", bucket, ignore, checkpoints.read(manifest))


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside"])
def test_a_manifest_cannot_name_a_place_outside_of_the_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "m.toml").write_text(f'[[file]]\npath = "{path}"\nsize_bytes = 1\nsha256 = "00"\n', "utf-8")
    with pytest.raises(ModelError, match="outside of the folder"):
        checkpoints.read(tmp_path / "m.toml")


def test_what_is_no_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text("[[file]]\npath = 1", "utf-8")
    with pytest.raises(ModelError, match="is no manifest"):
        checkpoints.read(tmp_path / "m.toml")


def test_the_check_names_what_is_missing_and_what_is_altered_and_changes_nothing(
    source: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--check", "--manifest", manifest, "--to", source)
    assert run(monkeypatch, *words) == 0
    (source / "tiny 7B/config.json").write_bytes(b"{!")
    (source / "tiny 7B/model.safetensors").unlink()
    assert run(monkeypatch, *words) == 1
    told = capsys.readouterr().err
    assert "tiny 7B/config.json is altered" in told
    assert "tiny 7B/model.safetensors is missing" in told
    assert not (source / "tiny 7B/model.safetensors").exists()
