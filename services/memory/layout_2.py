"""Reader of stores of layout 2: whole objects in a folder or an S3 bucket, as earlier versions kept them.

It writes nothing, and reads one thing at a time. Stop every service that uses the store first. Records are dicts, as
stored. Left out are vectors, expired turns, leftovers of killed writers, files that no identity names, and generations
whose erasure has begun. Every function raises `Damaged` for an object whose SHA-256 does not match.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from services.common.errors import FailedPrecondition
from services.memory import layout_2_source as objects
from services.memory.layout_2_source import Record, Source, name_of

_LAYOUT = b'{"version": 2}'
_CLIPS = ("speech", "video")


@dataclass(frozen=True)
class Identity:
    """An identity of a tenant: `generation` is this addition of its id, `head` the record of its newest version."""

    tenant: str
    id: str
    generation: str
    head: Record

    @property
    def folder(self) -> str:
        """Folder of everything of this generation."""
        return f"tenants/{self.tenant}/kept/{self.id}/{self.generation}/"


@dataclass(frozen=True)
class User:
    """A user of an identity: of kind "p" with the handle `name`, of kind "c" known in the conversation `name` only."""

    identity: Identity
    kind: str
    name: str
    generation: str

    @property
    def folder(self) -> str:
        """Folder of the user's turns with this identity."""
        return f"{self.identity.folder}people/{self.kind}-{self.name}-{self.generation}/"


def check_layout(source: Source) -> None:
    """Check that a store has layout 2.

    Raises:
        FailedPrecondition: It has another layout, or none.
    """
    try:
        content = source.read("layout")
    except KeyError as error:
        raise FailedPrecondition("the store has no object 'layout': name a store of layout 2") from error
    if content != _LAYOUT:
        raise FailedPrecondition(f"the store's object 'layout' says {content[:80]!r}: name one of {_LAYOUT.decode()}")


def tenants(source: Source) -> Iterator[str]:
    """Yield the names of all tenants."""
    yield from sorted({*source.folders("tenants/"), *(name_of(key) for key, _ in source.keys("retentions/"))})


def retention(source: Source, tenant: str) -> Record | None:
    """Return the days that a tenant's things are kept; None for ever."""
    return objects.optional_record(source, f"retentions/{tenant}")


def banks(source: Source, tenant: str) -> Iterator[Record]:
    """Yield the emotion banks of a tenant, by name; the default bank is not stored."""
    return objects.records(source, f"tenants/{tenant}/banks/")


def audits(source: Source, tenant: str) -> Iterator[Record]:
    """Yield the records of erasures, newest first; `done_at_s` is 0 where one was cut short."""
    return objects.records(source, f"tenants/{tenant}/audits/")


def removed(source: Source, tenant: str) -> Iterator[str]:
    """Yield the ids of ready identities that were erased and must stay away."""
    return (name_of(key) for key, _ in source.keys(f"tenants/{tenant}/removed/"))


def examples(source: Source, owner: str | Identity) -> Iterator[Record]:
    """Yield the examples of a tenant or of an identity, by id."""
    return objects.records(source, f"{_folder(owner)}exemplars/items/")


def emotion_references(source: Source, owner: str | Identity) -> Iterator[tuple[Record, bytes]]:
    """Yield the emotional references of a tenant or of an identity: generator, name, media_type; and the content."""
    for key, _ in source.keys(f"{_folder(owner)}emotions/"):
        media_type, _, content = objects.sealed_content(source, key).partition(b"\n")
        yield {"generator": key.split("/")[-2], "name": name_of(key), "media_type": media_type.decode()}, content


def identities(source: Source, tenant: str) -> Iterator[Identity]:
    """Yield the identities of a tenant, by id."""
    erased = _erased(source, tenant)
    for key, _ in source.keys(f"tenants/{tenant}/identities/"):
        head = objects.record_of(source, key)
        if head["id"] != name_of(key):
            raise objects.damaged(key, f"it is the head of {head['id']!r}")
        identity = Identity(tenant, head["id"], head["generation"], head)
        if erased.isdisjoint((f"i-{identity.id}", identity.folder)):
            yield identity


def versions(source: Source, identity: Identity) -> Iterator[Record]:
    """Yield all versions of an identity, oldest first; earlier ones may name references that are gone."""
    for version in range(1, identity.head["version"]):
        yield objects.record_of(source, f"{identity.folder}versions/{version:010d}")
    yield identity.head


def references(source: Source, identity: Identity) -> Iterator[tuple[Record, bytes]]:
    """Yield the references of the newest version, in its order, each with its content."""
    for each in identity.head["references"]:
        key = f"{identity.folder}references/{each['digest']}-{each['since']}"
        yield each, objects.content_of(source, key, each["digest"])


def derived(source: Source, identity: Identity) -> Iterator[tuple[Record, bytes]]:
    """Yield what models derived of the newest version: kind, reference_digests, model_digest; and the content."""
    for kind in ("portrait", "voice", "film"):
        digests = [each["digest"] for each in identity.head["references"] if each["kind"] == kind]
        for key, _ in source.keys(f"{identity.folder}derived/{kind}/"):
            digest, _, model_digest = name_of(key).partition("-")
            if found := _derived_from(digest, digests):
                row = {"kind": kind, "reference_digests": list(found), "model_digest": model_digest}
                yield row, objects.sealed_content(source, key)


def users(source: Source, identity: Identity) -> Iterator[User]:
    """Yield the users of an identity who are known."""
    folder, erased = f"tenants/{identity.tenant}/", _erased(source, identity.tenant)
    for found in source.folders(f"{identity.folder}people/"):
        name, _, generation = found.rpartition("-")
        head = objects.optional_record(source, f"{folder}persons/{name}")
        if head == {"generation": generation} and f"{folder}persons-of/{found}/" not in erased:
            yield User(identity, name[0], name[2:], generation)


def conversations(source: Source, user: User) -> Iterator[str]:
    """Yield the names of a user's conversations."""
    return source.folders(f"{user.folder}turns/")


def turns(source: Source, user: User, conversation: str) -> Iterator[tuple[Record, dict[str, bytes]]]:
    """Yield the turns of a conversation, oldest first (keys descend), each with its clips by kind: speech, video."""
    timings = {name_of(key): key for key, _ in source.keys(f"{user.folder}timings/{conversation}/")}
    clips = _last_clips(source, f"{user.folder}clips/{conversation}/")
    for key, _ in sorted(source.keys(f"{user.folder}turns/{conversation}/"), reverse=True):
        placed = name_of(key)
        place = objects.optional_record(source, f"{user.folder}turn-ids/{conversation}/{placed.partition('-')[2]}")
        if place and place["countdown"] == 0:
            continue  # It has expired, and a sweep was cut short.
        record = objects.record_of(source, key) | {"conversation": conversation}
        if placed in timings:
            record["timings_s"] = objects.record_of(source, timings[placed])["seconds"]
        kept = sorted(clips.get(placed, {}).items())
        yield record, {kind: objects.content_of(source, clip, clip[-64:]) for kind, clip in kept}


def _folder(owner: str | Identity) -> str:
    return owner.folder if isinstance(owner, Identity) else f"tenants/{owner}/"


def _erased(source: Source, tenant: str) -> set[str]:
    """Return the folders whose erasure has begun, and the names of marks of erasures that are not done."""
    erased: set[str] = set()
    for key, _ in source.keys(f"erasing/{tenant}/"):
        mark = objects.record_of(source, key)
        erased.update(mark["folders"], () if mark["audit"]["done_at_s"] else (name_of(key),))
    return erased


def _derived_from(digest: str, references: Sequence[str]) -> tuple[str, ...]:
    """Return the references that a key of derived data means: one, or the SHA-256 of the digests of several."""
    for count in range(1, len(references) + 1):
        for some in combinations(references, count):
            if digest == (some[0] if count == 1 else hashlib.sha256("".join(some).encode()).hexdigest()):
                return some
    return ()


def _last_clips(source: Source, prefix: str) -> dict[str, dict[str, str]]:
    """Return the key of the clip that was written last, by place and kind."""
    last: dict[str, dict[str, str]] = {}
    for key, _ in sorted(source.keys(prefix), key=lambda found: (found[1], found[0])):
        placed, kind, _ = (["", "", *name_of(key).rsplit("-", 2)])[-3:]
        if not placed or kind not in _CLIPS:
            raise objects.damaged(key, "its name is not that of a clip")
        last.setdefault(placed, {})[kind] = key
    return last


async def import_store(memory, source, settings):  # type: ignore
    yield ""
