"""Table of variants in a file: watched, and replaced whole."""

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from services.common.errors import Conflict

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Time between two looks at the file."""


class TableFile:
    """A table in a file, which may also be a key of a mounted ConfigMap: its link changes then, not the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> str:
        """Return the text; empty while there is no file.

        Raises:
            OSError: It cannot be read.
        """
        return await asyncio.to_thread(self._read)

    async def texts(self) -> AsyncGenerator[str]:
        """Yield the text now and after each change; empty while there is no file."""
        known: str | None = None
        problem = ""
        while True:
            try:
                text, problem = await self.read(), ""
            except OSError as error:
                if str(error) != problem:
                    log.error("the table of variants cannot be read; the one before stays", extra={"why": str(error)})
                text, problem = known or "", str(error)
            if text != known:
                known = text
                yield text
            await asyncio.sleep(LOOK_S)

    async def replace(self, before: str, text: str) -> None:
        """Replace the file at once and whole.

        Args:
            before: The text that the change was made from.
            text: The new text.

        Raises:
            Conflict: The file has another text by now.
            OSError: It cannot be written.
        """
        await asyncio.to_thread(self._replace, before, text)

    def _replace(self, before: str, text: str) -> None:
        # `flock` keeps out the other threads of this process too; `lockf` would not.
        lock = self._path.with_name(f".{self._path.name}.lock")
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            if self._read() != before:
                raise Conflict("the table of variants was changed meanwhile; look at it and try again")
            fresh = self._path.with_name(f".{self._path.name}.new")
            fresh.write_text(text, "utf-8")
            with fresh.open("rb") as written:
                os.fsync(written.fileno())
            fresh.replace(self._path)

    def _read(self) -> str:
        try:
            # Bytes that are no UTF-8 make a table that is refused, with the reason.
            return self._path.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
