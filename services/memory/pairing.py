"""Refusal of object storage that belongs to another database: its objects would be deleted as orphans.

Database and object storage carry the same mark: the time at which the database was first opened, as a row of `tasks`
and as an object.
"""

from sqlalchemy import select

from services.common.errors import FailedPrecondition
from services.memory.schema import MEDIA, tasks
from services.memory.session import Session, by
from services.memory.storage import Storage

MARK = "store"
_TRIALS = ("parts/", "probe/")
"""Objects of replicas that start beside, and try the storage."""


async def check_pair(storage: Storage) -> None:
    """Mark a database and its object storage as belonging together; refuse storage that is another's.

    Raises:
        FailedPrecondition: The storage has another mark, has none though the database names objects, or has objects
            though the database is new.
    """
    now_s = storage.clock()

    async def work(session: Session) -> tuple[bool, float, bool]:
        is_new = await session.add_new(tasks, name=MARK, taken_at_s=now_s) > 0
        begun_s = await session.value(select(tasks.c.taken_at_s).where(by(tasks, name=MARK)))
        names_any = [await session.value(select(table.c.key).limit(1)) is not None for table in MEDIA]
        return is_new, begun_s, any(names_any)

    is_new, begun_s, names_any = await storage.write("", work)
    mark = f"{begun_s!r}\n".encode()
    # Before the mark is read: a replica that starts beside writes its mark before its objects.
    has_objects = await _has_objects(storage)
    found = await storage.media.read(MARK)
    if found == mark:
        return
    if found is None and (is_new if names_any else not has_objects):
        await storage.media.put(MARK, mark)
        return
    problem = f"its object {MARK!r} says {found!r}" if found else f"it has no object {MARK!r}"
    raise FailedPrecondition(
        f"the object storage is not this database's: {problem}, this database's says {mark!r}. Its objects would be"
        f" deleted as orphans. Name the right storage or restore the right database; if the two do belong together,"
        f" write {mark!r} into the object {MARK!r}"
    )


async def _has_objects(storage: Storage) -> bool:
    async for entries in storage.media.list(""):
        if any(each.key != MARK and not each.key.startswith(_TRIALS) for each in entries):
            return True
    return False
