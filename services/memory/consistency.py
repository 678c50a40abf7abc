"""Comparison of database and object storage, for instance after they were restored to different moments."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import delete, func, select

from services.common.errors import Damaged, InvalidRequest
from services.memory.memory import Memory
from services.memory.pairing import MARK, check_pair
from services.memory.repositories.erasure import COPIES, COPY, Copy, brought_back
from services.memory.schema import MEDIA, outbox, reference_files


@dataclass
class Findings:
    """Result of a check: rows and reference files without objects, objects without rows; whether they were repaired."""

    rows: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    erased: int = 0
    is_repaired: bool = False

    @property
    def are_left(self) -> bool:
        """Tell whether anything is left to do."""
        return bool(self.files or (not self.is_repaired and (self.rows or self.objects or self.erased)))

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        done = ", deleted" if self.is_repaired else ", to be deleted: run with --repair"
        restore = ", restore these objects, or change their identities"
        for what, keys, remedy in (
            ("rows without their object", self.rows, done),
            ("objects without a row", self.objects, done),
            ("erased, and back from a backup", self.erased, done),
            ("reference files without their object", self.files, restore),
        ):
            count = keys if isinstance(keys, int) else len(keys)
            yield f"{what}: {count}{remedy if count else ''}"
            yield from () if isinstance(keys, int) else (f"  {key}" for key in keys)


async def check(memory: Memory, is_repairing: bool, erasures: Path | None) -> Findings:
    """Compare rows with objects, and both with the records of erasures; no replica may be writing.

    Args:
        memory: Which.
        is_repairing: Whether to delete what has lost its other half, and to erase again what a restore brought back.
        erasures: A folder with a copy of the records that lie below `erasures/` in object storage.
    """
    await check_pair(memory.storage)
    storage, findings, read = memory.storage, Findings(is_repaired=is_repairing), memory.storage.media.blobs.get
    contents = {each.key: read(each.key) or b"" async for some in storage.media.list(COPIES) for each in some}
    contents |= _in_folder(erasures) if erasures else {}
    copies = {copy.audit.id: copy for copy in (_parsed(*each) for each in contents.items())}
    for copy in copies.values():
        for table, is_back in brought_back(copy):
            findings.erased += (await storage.rows("", select(func.count()).select_from(table).where(is_back)))[0][0]
    if is_repairing and copies:
        await memory.erasure.replay("", list(copies.values()))
        await memory.erasure.drain()
    listed = [each.key async for some in storage.media.list("") for each in some]
    there = {key for key in listed if key != MARK and not key.startswith(COPIES)}
    named = {row[0] for row in await storage.rows("", select(outbox.c.key))}
    for table in MEDIA:
        keys = {row[0] for row in await storage.rows("", select(table.c.key))}
        named |= keys
        lost = sorted(keys - there)
        (findings.files if table is reference_files else findings.rows).extend(lost)
        for key in lost if is_repairing and table is not reference_files else ():
            await storage.run("", delete(table).where(table.c.key == key))
    findings.objects = sorted(there - named)
    if is_repairing:
        await storage.media.delete(findings.objects)
        await memory.erasure.drain()
    return findings


def _in_folder(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise InvalidRequest("--erasures", f"{folder} is no folder; name a copy of {COPIES}")
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _parsed(name: str, content: bytes) -> Copy:
    try:
        return COPY.validate_json(content)
    except ValidationError as error:
        raise Damaged(f"{name} is no record of an erasure; restore it, or take it out of the way") from error
