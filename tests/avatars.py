"""An identity for tests of the memory, and what a reader sees of it."""

from collections.abc import Iterable
from dataclasses import replace

from services.memory import keys
from services.memory.domain import (
    Change,
    EmotionBank,
    File,
    Grant,
    Identity,
    NewIdentity,
    Profile,
    ReferenceKind,
    Use,
)
from services.memory.keys import Scope
from services.memory.records import digest_of
from services.memory.registry.banks import Banks
from services.memory.registry.registry import Registry
from services.memory.store import Store, content_of
from tests.talking import TENANT, Clock, keys_of

MODEL = "d" * 64
"""Digest of a model that derives things."""


def portrait(name: str = "") -> File:
    return File(ReferenceKind.PORTRAIT, b"\x89PNG\r\n\x1a\nportrait" + name.encode())


def voice(name: str = "") -> File:
    return File(ReferenceKind.VOICE, b"RIFF\x00\x00\x00\x00WAVEvoice" + name.encode())


def film(name: str = "") -> File:
    return File(ReferenceKind.FILM, b"\x00\x00\x00\x18ftypisom film" + name.encode())


def grants(uses: Iterable[str] = tuple(Use)) -> tuple[Grant, ...]:
    return tuple(Grant(use, "the test", "2026-01-31") for use in uses)


ADA = NewIdentity(
    "ada",
    Profile("Ada", "young", "female", "mid", "en", "Likes engines.", "In short sentences."),
    grants(),
    (portrait(), voice()),
)


def digest(file: File) -> str:
    return digest_of(file.content)


def registry(store: Store) -> Registry:
    """A replica of its own, at a time that stands still."""
    return Registry(store, Clock())


def read(store: Store, key: str) -> bytes:
    content = content_of(store.get(key))
    assert content is not None
    return content


def reader_of(store: Store) -> tuple[Identity, ...]:
    """All versions of Ada, the present one first, after reading every file that it names; none if she is not there."""
    replica = registry(store)
    if not replica.is_there(TENANT, "ada"):
        return ()
    now = replica.identity(TENANT, "ada")
    for reference in now.references:
        assert digest_of(replica.reference(TENANT, "ada", reference.digest)) == reference.digest
    return (now, *(replica.identity(TENANT, "ada", version) for version in range(now.version - 1, 0, -1)))


def named(identity: Identity) -> set[str]:
    """The keys of what is kept of an identity of which nothing was derived or said."""
    scope = Scope(TENANT, identity.id, identity.generation)
    files = {scope.reference(reference.digest, reference.since) for reference in identity.references}
    versions = {scope.version(version) for version in range(1, identity.version)}
    return {f"tenants/{TENANT}/identities/{identity.id}", *files, *versions}


HEAD = keys.head(TENANT, "ada")
BIG = Change(
    if_version=1,
    profile=replace(ADA.profile, name="Ada Lovelace"),
    grants=grants([Use.ANIMATE_FACE, Use.CLONE_VOICE]),
    emotion_bank="calm",
    removed=(digest(voice()),),
    added=(voice("new"), film()),
)
"""Changes all that there is of her."""


def added(store: Store) -> Store:
    """Ada is there, with something derived from each of her files, and a bank that she does not use."""
    Banks(store).put(TENANT, EmotionBank("calm", ("sad",), ("default",)))
    registry(store).add(TENANT, ADA)
    for file in ADA.files:
        registry(store).keep_derived(TENANT, "ada", [digest(file)], MODEL, file.content[::-1])
    return store


def change(store: Store, change: Change) -> Identity:
    return registry(store).change(TENANT, "ada", change)


def derived(store: Store, *files: File) -> bytes:
    return registry(store).derived(TENANT, "ada", [digest(file) for file in files], MODEL)


def kept(store: Store, *parts: str) -> set[str]:
    """What is there of Ada, but for what has one of `parts` in its name."""
    return {key for key in keys_of(store, "/ada") if not any(part in key for part in parts)}
