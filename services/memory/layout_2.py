"""Import of stores of layout 2: whole objects in a folder or a bucket, as versions before the database kept them.

Stop every service that uses the old store first; nothing is written to it. Left out are vectors (texts are embedded
anew), expired turns, what killed writers left, files that no identity names, and what an erasure had begun with. A
record is its SHA-256 in the first line, then JSON. An identity is brought in as out of an archive of format 2.
"""

import hashlib
import json
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

from services.common.errors import AlreadyExists, Damaged, FailedPrecondition
from services.common.tar import Member
from services.memory.archive_format import ABOUT, LINES_MAX, earlier
from services.memory.blobs import Blobs, FolderBlobs
from services.memory.domain import EmotionBank, Example, Generator, Identity, Retention, digest_of
from services.memory.memory import Memory
from services.memory.repositories.identities import source_of
from services.memory.s3 import S3Blobs
from services.memory.schema import audits, removed_identities
from services.memory.session import Session
from services.memory.settings import MemorySettings

LAYOUT = b'{"version": 2}'

Record = dict[str, Any]


class Store:
    """A store of layout 2; the names of all its objects are held in memory.

    Raises:
        FailedPrecondition: It has another layout, or none.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._modified_s = {entry.key: entry.modified_s for entry in blobs.list("")}
        self._keys = sorted(self._modified_s)
        if (found := blobs.get("layout")) != LAYOUT:
            says = f"its object 'layout' says {found[:80]!r}" if found else "it has no object 'layout'"
            raise FailedPrecondition(f"this is no store of layout 2: {says}; name one of {LAYOUT.decode()}")

    def keys(self, folder: str) -> list[str]:
        """Return the keys below a folder, ascending."""
        start = bisect_left(self._keys, folder)
        return self._keys[start : bisect_left(self._keys, folder[:-1] + "0", start)]  # "0" follows "/"

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder."""
        return sorted({key.removeprefix(folder).split("/")[0] for key in self.keys(folder)})

    def last_written(self, folder: str) -> list[str]:
        """Return the keys below a folder, the one that was written last at the end."""
        return sorted(self.keys(folder), key=lambda key: (self._modified_s[key], key))

    def content(self, key: str, digest: str = "") -> bytes:
        """Return an object with the SHA-256 `digest`, or without that sealed by its first line.

        Raises:
            Damaged: It is missing, or another.
        """
        stored = self._blobs.get(key)
        seal, _, body = (digest.encode(), b"", stored) if digest else (stored or b"").partition(b"\n")
        if body is None or hashlib.sha256(body).hexdigest().encode() != seal:
            problem = "its SHA-256 does not match" if stored else "it is missing"
            raise Damaged(
                f"stored object {key!r} is damaged: {problem}; restore it from a backup, or remove what it is of"
            )
        return body

    def record(self, key: str) -> Record:
        """Return the record in an object; empty without one."""
        found: Record = json.loads(self.content(key)) if key in self._modified_s else {}
        return found

    def records(self, folder: str) -> Iterator[Record]:
        """Yield the records below a folder."""
        return (self.record(key) for key in self.keys(folder))


async def import_store(memory: Memory, source: str, settings: MemorySettings) -> AsyncIterator[str]:
    """Bring in a store and yield what was done; an identity that is there already is left alone.

    Args:
        memory: Where to.
        source: The old folder, or the name of the old bucket at the endpoint of the settings.
        settings: Of the memory.
    """
    if (objects := Path(source) / "objects").is_dir():
        store = Store(FolderBlobs(objects))
    elif Path(source).is_dir():
        raise FailedPrecondition(f"--from: {source} holds no store of layout 2: it has no folder 'objects'")
    elif settings.s3_endpoint:
        store = Store(S3Blobs(settings.model_copy(update={"s3_bucket": source, "s3_create_bucket": False})))
    else:
        raise FailedPrecondition(f"--from: {source!r} is no folder; for a bucket set E3RG_MEMORY_S3_ENDPOINT")
    for tenant in sorted({*store.folders("tenants/"), *store.folders("retentions/")}):
        for line in await _tenant(memory, store, tenant):
            yield line
        erased = _erased(store, tenant)
        for key in store.keys(f"tenants/{tenant}/identities/"):
            head = store.record(key)
            folder = f"tenants/{tenant}/kept/{head['id']}/{head['generation']}/"
            if erased.isdisjoint((f"i-{head['id']}", folder)):
                yield f"{tenant}: identity {head['id']}: {await _identity(memory, store, tenant, head, folder, erased)}"
    await memory.erasure.drain()


async def _tenant(memory: Memory, store: Store, tenant: str) -> list[str]:
    """Bring in what is of no identity; return what was done."""
    folder, count = f"tenants/{tenant}/", 0
    if retention := store.record(f"retentions/{tenant}"):
        await memory.retentions.set(tenant, Retention(**retention))
    for bank in store.records(f"{folder}banks/"):
        names = tuple(bank["face_classes"]), tuple(bank["voice_styles"])
        await memory.identities.put_bank(tenant, EmotionBank(bank["name"], *names))
    for member in _emotions(store, folder):
        _, generator, name = member.name.split("/")
        await memory.references.put_emotion(tenant, "", Generator(generator), name, member.media_type, member.content)
    for example in store.records(f"{folder}exemplars/items/"):
        await memory.examples.put(tenant, "", [Example(**{**example, "id": ""})])
        count += 1
    now_s = memory.storage.clock()
    records = [{**each, "done_at_s": each["done_at_s"] or now_s} for each in store.records(f"{folder}audits/")]

    async def work(session: Session) -> None:
        for audit in records:
            id_ = digest_of(audit["id"].encode())[:32]
            await session.add_new(audits, **{**audit, "id": id_}, tenant=tenant, erased_ids=[])
        for key in store.keys(f"{folder}removed/"):
            await session.add_new(removed_identities, tenant=tenant, name=_name(key))

    await memory.storage.write(tenant, work)
    return [f"{tenant}: {count} examples, {len(records)} records of erasures"]


async def _identity(memory: Memory, store: Store, tenant: str, head: Record, folder: str, erased: set[str]) -> str:
    """Bring in an identity; return what was done."""
    importing = memory.archive.importing(tenant, head["id"])
    turns = 0
    try:
        for member in _members(store, tenant, head, folder, erased):
            await importing.put(member)
            turns += member.content.count(b"\n") if "/turns/" in member.name else 0
        identity = await importing.end()
    except AlreadyExists:
        return "is there already, left alone"
    except BaseException:
        await importing.withdraw()
        raise
    await _derived(memory, store, tenant, identity, folder)
    return f"{identity.version} versions, {turns} turns"


def _members(store: Store, tenant: str, head: Record, folder: str, erased: set[str]) -> Iterator[Member]:
    """Yield an identity as the members of an archive."""
    yield _about(ABOUT, head)
    for each in head["references"]:
        content = store.content(f"{folder}references/{each['digest']}-{each['since']}", each["digest"])
        yield Member(f"references/{each['digest']}", content)
    for version in range(1, head["version"]):
        yield _about(earlier(version), store.record(f"{folder}versions/{version:010d}"))
    yield from _emotions(store, folder)
    yield from _lines("exemplars/", [{**each, "id": ""} for each in store.records(f"{folder}exemplars/items/")])
    for found in store.folders(f"{folder}people/"):
        person, _, generation = found.rpartition("-")
        known = store.record(f"tenants/{tenant}/persons/{person}")
        if known == {"generation": generation} and f"tenants/{tenant}/persons-of/{found}/" not in erased:
            yield from _person(store, f"{folder}people/{found}/", f"people/{person}/")


def _person(store: Store, folder: str, name: str) -> Iterator[Member]:
    """Yield turns, oldest first, then clips, of one kind the one that was written last."""
    said: list[Record] = []
    clips: dict[str, tuple[str, str]] = {}
    for conversation in store.folders(f"{folder}turns/"):
        for key in reversed(store.keys(f"{folder}turns/{conversation}/")):  # Places count down.
            placed = _name(key)
            if store.record(f"{folder}turn-ids/{conversation}/{placed.partition('-')[2]}").get("countdown") == 0:
                continue  # It has expired, and a sweep was cut short.
            timings = store.record(f"{folder}timings/{conversation}/{placed}")
            turn = store.record(key) | {"conversation": conversation, "clips": []}
            said.append({"placed": placed, "turn": turn | ({"timings_s": timings["seconds"]} if timings else {})})
        for key in store.last_written(f"{folder}clips/{conversation}/"):
            placed, kind, digest = _name(key).rsplit("-", 2)
            clips[f"{conversation}/{placed}/{kind}"] = key, digest
    yield from _lines(f"{name}turns/", said)
    there = {f"{each['turn']['conversation']}/{each['placed']}" for each in said}
    for clip, (key, digest) in sorted(clips.items()):
        if clip.rpartition("/")[0] in there:
            yield Member(f"{name}clips/{clip}", store.content(key, digest))


async def _derived(memory: Memory, store: Store, tenant: str, identity: Identity, folder: str) -> None:
    """Bring in what models derived from the files that the identity still has, for uses that are allowed."""
    for key in store.keys(f"{folder}derived/"):
        kind, (source, _, model_digest) = key.split("/")[-2], _name(key).partition("-")
        digests = [each.digest for each in identity.references if each.kind == kind]
        some = (each for count in range(1, len(digests) + 1) for each in combinations(digests, count))
        if files := next((each for each in some if source_of(each) == source), None):
            with suppress(FailedPrecondition):
                await memory.references.keep_derived(tenant, identity.id, files, model_digest, store.content(key))


def _emotions(store: Store, folder: str) -> Iterator[Member]:
    for key in store.keys(f"{folder}emotions/"):
        media_type, _, content = store.content(key).partition(b"\n")
        yield Member(key.removeprefix(folder), content, media_type.decode())


def _about(name: str, head: Record) -> Member:
    """Return the member that describes an identity at one version."""
    about = {**head, "format": "e3rg identity", "version": 2, "identity_version": head["version"]}
    return Member(name, json.dumps(about).encode())


def _lines(folder: str, lines: Sequence[Record]) -> Iterator[Member]:
    for number, start in enumerate(range(0, len(lines), LINES_MAX)):
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines[start : start + LINES_MAX])
        yield Member(f"{folder}{number:06d}", content)


def _erased(store: Store, tenant: str) -> set[str]:
    """Return the folders whose erasure has begun, and the names of marks of erasures that are not done."""
    erased: set[str] = set()
    for key in store.keys(f"erasing/{tenant}/"):
        mark = store.record(key)
        erased.update(mark["folders"], () if mark["audit"]["done_at_s"] else (_name(key),))
    return erased


def _name(key: str) -> str:
    return key.rpartition("/")[2]
