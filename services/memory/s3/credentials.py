"""Access key and secret key of an S3 store, as settings or as files whose content may be exchanged."""

import os
from pathlib import Path

from minio.credentials.credentials import Credentials
from minio.credentials.providers import Provider

from services.common.errors import NotReady


class _Text:
    """The text of a file, read again when another file has taken its place or it was written anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._text = ""

    def read(self) -> str:
        try:
            status = os.stat(self._path)
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._text, self._seen = self._path.read_text("utf-8").strip(), seen
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no UTF-8"
            raise NotReady(f"the object store's credentials cannot be read: {self._path}: {reason}") from error
        if not self._text:
            raise NotReady(f"the object store's credentials cannot be read: {self._path} is empty")
        return self._text


class Keys(Provider):
    """Gives the client both keys before each request, hence the new ones as soon as the files have them.

    Args:
        access_key: The key, or the file that holds it.
        secret_key: Likewise.
    """

    def __init__(self, access_key: str | Path, secret_key: str | Path) -> None:
        self._keys = [_Text(key) if isinstance(key, Path) else key for key in (access_key, secret_key)]

    def retrieve(self) -> Credentials:
        """Returns both keys.

        Raises:
            NotReady: A file cannot be read, or is empty.
        """
        access_key, secret_key = (key.read() if isinstance(key, _Text) else key for key in self._keys)
        return Credentials(access_key, secret_key)
