"""The script that dumps the bundled database, with a stand-in for `pg_dump`."""

import os
import re
import subprocess
from pathlib import Path

from tests.chart.conftest import CHART

PG_DUMP = """#!/bin/sh
while [ "$1" != -f ]; do shift; done
echo dump > "$2"
exit "$STATUS"
"""


def _back_up(folder: Path, status: int, keep: int = 7) -> int:
    """Run the script below `folder`, where `pg_dump` ends with `status`; return the script's."""
    program, password = folder / "bin/pg_dump", folder / "secrets/backup-password"
    for file, content in ((program, PG_DUMP), (password, "secret")):
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    program.chmod(0o755)
    (folder / "backup").mkdir(exist_ok=True)
    script = re.sub(r"/(?=secrets/|backup(?!-))", f"{folder}/", (CHART / "files/backup.sh").read_text("utf-8"))
    path = f"{program.parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "PGHOST": "db", "PGDATABASE": "e3rg", "KEEP": str(keep), "STATUS": str(status)}
    return subprocess.run(["sh", "-c", script], env=environment, check=False, capture_output=True).returncode


def test_what_a_failed_dump_left_goes_with_the_next(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    assert _back_up(tmp_path, status=1) != 0
    (partial,) = backup.iterdir()
    # The next one is begun in the same second, or not.
    partial.rename(backup / "20261122T031700Z.dump.partial")
    assert _back_up(tmp_path, status=0) == 0
    assert [file.suffix for file in backup.iterdir()] == [".dump"]


def test_the_oldest_dumps_beyond_those_that_are_kept_go(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    for day in (20, 21, 22):
        (backup / f"202611{day}T031700Z.dump").touch()
    assert _back_up(tmp_path, status=0, keep=2) == 0
    kept = sorted(file.name for file in backup.iterdir())
    assert len(kept) == 2
    assert kept[0] == "20261122T031700Z.dump"
