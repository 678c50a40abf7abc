"""Files on their way to a deployment and back, piece by piece: no film has to fit into memory."""

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

CHUNK_BYTES = 1 << 18

Content = Path | bytes
"""A file, or what is in one."""


def size_of(content: Content) -> int:
    """Returns the size in bytes, and finds out on the way that the file is there and can be read.

    Raises:
        OSError: There is no such file, it may not be read, or it is empty; the error names it.
    """
    if isinstance(content, bytes):
        return len(content)
    with content.open("rb") as file:
        status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):  # a pipe tells its size, which goes first, only at its end
        raise OSError(errno.EINVAL, "it is no regular file; write it to one first", str(content))
    if not status.st_size:
        raise OSError(errno.ENODATA, "the file is empty", str(content))
    return status.st_size


def digest_of(content: Content) -> str:
    """Returns the SHA-256 (hex) of the bytes.

    Raises:
        OSError: The file cannot be read.
    """
    digest = hashlib.sha256()
    for piece in pieces(content):
        digest.update(piece)
    return digest.hexdigest()


def pieces(content: Content) -> Iterator[bytes]:
    """Yields the bytes in pieces that fit into a message.

    Raises:
        OSError: The file cannot be read.
    """
    if isinstance(content, bytes):
        for start in range(0, len(content), CHUNK_BYTES):
            yield content[start : start + CHUNK_BYTES]
        return
    try:
        with content.open("rb") as file:
            while piece := file.read(CHUNK_BYTES):
                yield piece
    except OSError as error:
        error.filename = error.filename or str(content)  # an error of reading does not know it
        raise


def write_whole(path: Path, parts: Iterable[bytes]) -> int:
    """Writes a file that is there whole or not at all: beside it under another name, then renamed.

    Only its owner may read it: what people said and look like is theirs.

    Args:
        path: The file; one that is there is replaced.
        parts: What is written, in order. When it raises, nothing is left.

    Returns:
        Bytes written.

    Raises:
        OSError: It cannot be written; the error names it.
    """
    if path.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # renaming would put a file in the place of /dev/null
        raise OSError(errno.EINVAL, "it is no regular file; name one", str(path))
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    size = 0
    try:
        with open(number, "wb") as file:
            for part in parts:
                size += file.write(part)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        if isinstance(error, OSError) and error.filename in (None, name):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    return size
