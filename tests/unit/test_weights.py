import hashlib
import re
from pathlib import Path

import pytest

from services.common.weights import digest_of


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "one.bin").write_bytes(b"one")
    (tmp_path / "two.bin").write_bytes(b"two")
    return tmp_path / "one.bin", tmp_path / "two.bin"


def test_a_digest_is_that_of_the_files_digests(files: tuple[Path, Path]) -> None:
    inner = hashlib.sha256(b"one").digest() + hashlib.sha256(b"two").digest()
    assert digest_of(*files) == hashlib.sha256(inner).hexdigest()


def test_a_digest_tells_apart_contents_order_and_where_one_file_ends(files: tuple[Path, Path]) -> None:
    one, two = files
    before = {digest_of(one, two), digest_of(two, one), digest_of(one)}
    # The same bytes in all, cut elsewhere.
    one.write_bytes(b"onet")
    two.write_bytes(b"wo")
    assert len(before | {digest_of(one, two)}) == 4


def test_a_digest_does_not_depend_on_where_the_files_are(files: tuple[Path, Path], tmp_path: Path) -> None:
    before = digest_of(*files)
    moved = [path.rename(tmp_path / f"moved_{path.name}") for path in files]
    assert digest_of(*moved) == before


def test_missing_weights_are_named(files: tuple[Path, Path], tmp_path: Path) -> None:
    for absent in (tmp_path / "three.bin", tmp_path):
        with pytest.raises(FileNotFoundError, match=f"^{re.escape(str(absent))} is missing; `make models`"):
            digest_of(*files, absent)
