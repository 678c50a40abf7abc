"""Files that are being written, and those whose writer was killed.

Whoever writes a file holds a lock of the kernel's on it until the file has its key or is gone; a process loses its
locks when it ends, however it ends. So a file that somebody else can lock is nobody's, and may be deleted at any time.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def written(folder: Path, content: bytes) -> Iterator[Path]:
    """Yields a new, synced file that nobody else touches in the block, and which is gone behind it.

    Args:
        folder: Where it is. `mkstemp` makes it readable by its owner only.
        content: What it holds.

    Raises:
        OSError: It cannot be written; FileNotFoundError when `folder` is not there.
    """
    while True:
        number, name = tempfile.mkstemp(dir=folder)
        path = Path(name)
        with os.fdopen(number, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not os.fstat(number).st_nlink:
                continue  # Before it was locked, somebody took it for a leftover.
            try:
                file.write(content)
                file.flush()
                os.fsync(number)
                yield path
            finally:
                path.unlink(missing_ok=True)
            return


def delete_leftovers(folder: Path) -> None:
    """Deletes the files in `folder` whose writers are gone; those of the living stay, of whatever process they are.

    Raises:
        OSError: It cannot be done; FileNotFoundError when `folder` is not there.
    """
    for name in os.listdir(folder):
        # Its writer has ended by now, or is at it.
        with contextlib.suppress(FileNotFoundError, BlockingIOError), (folder / name).open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / name).unlink()
