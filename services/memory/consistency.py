"""Comparison of database and object storage, for instance after they were restored to different moments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import delete, func, select

from services.common.errors import InvalidRequest
from services.memory.memory import Memory
from services.memory.repositories.erasure import COPIES, COPY, Copy, row_of
from services.memory.schema import MEDIA, audits, examples, identities, outbox, reference_files, users
from services.memory.storage import Storage, insert_new


@dataclass
class Findings:
    """What was found, and whether it was repaired."""

    rows: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    erased: int = 0
    is_repaired: bool = False

    @property
    def are_left(self) -> bool:
        """Whether anything is left to do."""
        return bool(self.files or (not self.is_repaired and (self.rows or self.objects or self.erased)))

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        done = "deleted" if self.is_repaired else "to be deleted: run with --repair"
        yield f"rows without their object: {len(self.rows)}{f', {done}' if self.rows else ''}"
        yield from (f"  {key}" for key in self.rows)
        yield f"objects without a row: {len(self.objects)}{f', {done}' if self.objects else ''}"
        yield from (f"  {key}" for key in self.objects)
        yield f"erased, and back from a backup: {self.erased}{f', {done}' if self.erased else ''}"
        hint = ", restore these objects, or change their identities" if self.files else ""
        yield f"reference files without their object: {len(self.files)}{hint}"
        yield from (f"  {key}" for key in self.files)


async def check(memory: Memory, is_repairing: bool, erasures: Path | None) -> Findings:
    """Compare rows with objects, and both with the records of erasures.

    Args:
        memory: Which; no replica may be writing.
        is_repairing: Whether to delete what has lost its other half, and to erase again what a restore brought back.
        erasures: A folder with a copy of the records that lie below `erasures/` in object storage.

    Raises:
        InvalidRequest: A record in the folder cannot be read.
    """
    storage, findings = memory.storage, Findings(is_repaired=is_repairing)
    copies = [*await _stored(storage), *(_in_folder(erasures) if erasures else ())]
    findings.erased = await _back(storage, copies)
    if is_repairing and copies:
        await memory.erasure.replay([(copy.tenant, copy.erased_ids) for copy in copies])
        await _restore_audits(storage, copies)
        await memory.erasure.drain()
    there = {each.key async for some in storage.media.list("") for each in some}
    there = {key for key in there if not key.startswith(COPIES)}
    named = {row[0] for row in await storage.rows("", select(outbox.c.key))}
    for table in MEDIA:
        keys = {row[0] for row in await storage.rows("", select(table.c.key))}
        named |= keys
        lost = sorted(keys - there)
        (findings.files if table is reference_files else findings.rows).extend(lost)
        if is_repairing and lost and table is not reference_files:
            for start in range(0, len(lost), 500):
                gone = delete(table).where(table.c.key.in_(lost[start : start + 500]))
                await storage.run("", gone)
    findings.objects = sorted(there - named)
    if is_repairing:
        await storage.media.delete(findings.objects)
        await memory.erasure.drain()
    return findings


async def _stored(storage: Storage) -> list[Copy]:
    """Return the records of erasures in object storage and in the database."""
    read = storage.media.blobs.get
    return [COPY.validate_json(read(each.key) or b"") async for some in storage.media.list(COPIES) for each in some]


def _in_folder(folder: Path) -> list[Copy]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            try:
                found.append(COPY.validate_json(path.read_bytes()))
            except ValidationError as error:
                raise InvalidRequest(
                    "--erasures", f"{path} is no record of an erasure; name a copy of {COPIES}"
                ) from error
    return found


async def _back(storage: Storage, copies: Sequence[Copy]) -> int:
    """Return the number of identities, users and examples that were erased and are there again."""
    total = 0
    for copy in copies:
        for table in (identities, users, examples):
            mine = table.c.tenant == copy.tenant, table.c.id.in_(copy.erased_ids)
            found = select(func.count()).select_from(table).where(*mine)
            total += int((await storage.rows("", found))[0][0])
    return total


async def _restore_audits(storage: Storage, copies: Sequence[Copy]) -> None:
    """Insert the records that the restored database lacks."""
    for copy in copies:
        row = {**row_of(copy.tenant, copy.audit, copy.erased_ids), "is_copied": True}
        await storage.maintain(lambda session, row=row: insert_new(session, audits, row))  # type: ignore[misc]
