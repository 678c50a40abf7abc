"""A whole identity as one archive, and back. `archive_format.py` says what is in it."""

import time
from collections.abc import Callable, Iterable, Iterator

from services.common.errors import Conflict, FailedPrecondition, NotFound
from services.common.tar import Member, packed
from services.memory import keys
from services.memory.archive.archive_format import (
    ABOUT,
    ABOUTS,
    EXEMPLARS,
    LINES_BYTES,
    LINES_MAX,
    SAID,
    VERSIONS_MAX,
    About,
    Said,
    earlier,
)
from services.memory.archive.importing import Importing
from services.memory.domain import Exemplar, Identity, Reference
from services.memory.forgetting.subjects import by_talk
from services.memory.keys import Scope, Talk
from services.memory.records import Codec, damaged, digest_of
from services.memory.registry.emotion_references import decode
from services.memory.registry.exemplars import Exemplars
from services.memory.registry.heads import Heads, Kept
from services.memory.registry.registry import Registry
from services.memory.store import Store, content_of
from services.memory.talks.clips import Clips
from services.memory.talks.conversation import Conversation
from services.memory.talks.persons import Persons
from services.memory.talks.talks import Talks

_EXEMPLARS = Codec(Exemplar)


class Archive:
    """Writes and reads archives of the identities of `registry`. Calls block; any thread may call.

    Args:
        store: Where everything is.
        registry: Knows the identities.
        persons: Knows the people.
        talks: Keeps turns.
        exemplars: Keeps examples.
        clock: Unix time.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        persons: Persons,
        talks: Talks,
        exemplars: Exemplars,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._registry, self._persons = store, registry, persons
        self._importing = Importing(store, registry, persons, talks, exemplars, clock)
        self._clips = Clips(store)
        self._heads = Heads(store)

    def export(self, tenant: str, identity: str) -> Iterator[bytes]:
        """Returns an identity as an archive, in pieces of at most 1 MiB.

        What was said or changed while it is written may be in it or not.

        Raises:
            NotFound: It is unknown, or was erased meanwhile: the archive is not whole then.
            Conflict: One of its files was removed meanwhile.
            FailedPrecondition: It was changed so often that no archive holds all its versions.
            Damaged: An object is not what was written; the message names it.
        """
        kept = self._registry.found(tenant, identity)
        if kept.identity.version > VERSIONS_MAX:
            problem = f"identity {identity!r} is at version {kept.identity.version}, an archive holds {VERSIONS_MAX}"
            raise FailedPrecondition(f"{problem}; copy what the store has of it")
        return packed(self._members(kept))

    def import_(self, tenant: str, identity: str, pieces: Iterator[bytes]) -> Identity:
        """Adds an identity out of an archive; it is there with everything, or nothing of it is kept.

        Args:
            tenant: Whose it becomes.
            identity: Its id; empty for the one that it had.
            pieces: The archive.

        Raises:
            AlreadyExists: The id is taken, or its erasure is not over.
            InvalidRequest: The archive is not one that `export` wrote, or ends too early.
            NotFound: A person in it, or it itself, was erased meanwhile.
        """
        return self._importing.run(tenant, identity, pieces)

    def _members(self, kept: Kept) -> Iterator[Member]:
        yield Member(ABOUT, ABOUTS.dump_json(About.of(kept.identity)))
        for reference in kept.identity.references:
            yield Member(f"references/{reference.digest}", self._reference(kept, reference))
        scope = kept.scope
        for version in range(1, kept.identity.version):
            yield Member(earlier(version), ABOUTS.dump_json(About.of(self._heads.earlier(scope, version))))
        for key, stored in self._stored(scope.emotions):
            media_type, content = decode(key, stored)
            yield Member(key.removeprefix(scope.folder), content, media_type)
        items = keys.Examples(scope.folder).items
        exemplars = (_EXEMPLARS.decode(key, stored) for key, stored in self._stored(items))
        yield from _in_lines("exemplars/", (EXEMPLARS.dump_json(each, exclude={"id"}) for each in exemplars))
        for talk, conversations in self._people(scope):
            yield from self._person(talk, conversations)
        # Had it been erased, what is missing here would have been passed over.
        if self._registry.found(scope.tenant, scope.identity).scope != scope:
            raise _erased(scope.identity)

    def _reference(self, kept: Kept, reference: Reference) -> bytes:
        key = kept.scope.reference(reference.digest, reference.since)
        content = content_of(self._store.get(key))
        if content is None:
            now = self._registry.found(kept.scope.tenant, kept.scope.identity)
            if now.scope != kept.scope:
                raise _erased(kept.identity.id)
            if reference not in now.identity.references:
                raise Conflict(f"identity {kept.identity.id!r} was changed while it was exported; export it again")
            raise damaged(key, "it is missing")
        if digest_of(content) != reference.digest:
            raise damaged(key, f"its SHA-256 does not match ({len(content)} bytes)")
        return content

    def _stored(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """Yields the objects of a folder that are still there when their turn comes."""
        for entry in self._store.list(folder):
            content = content_of(self._store.get(entry.key))
            if content is not None:
                yield entry.key, content

    def _people(self, scope: Scope) -> Iterator[tuple[Talk, dict[str, list[str]]]]:
        """Yields the talk of each person who is still known, and its conversations: the places of their turns."""
        for talk, entries in by_talk(scope, self._store.list(scope.people)):
            kind, _, name = talk.person.partition("-")
            now = self._persons.talk(scope, *((name, "") if kind == "p" else ("", name)))
            if now != talk:
                continue  # Erased: what is below its folder is about to go.
            turns = f"{talk.folder}turns/"
            places = [entry.key.removeprefix(turns).split("/") for entry in entries if entry.key.startswith(turns)]
            conversations: dict[str, list[str]] = {}
            for conversation, placed in sorted(places, reverse=True):
                conversations.setdefault(conversation, []).append(placed)
            yield talk, dict(sorted(conversations.items()))

    def _person(self, talk: Talk, conversations: dict[str, list[str]]) -> Iterator[Member]:
        folder = f"people/{talk.person}/"
        said = (
            Said(placed, turn)
            for conversation, places in conversations.items()
            for placed in places
            if (turn := Conversation(self._store, talk, conversation).read(placed))
        )
        yield from _in_lines(f"{folder}turns/", map(SAID.dump_json, said))
        for conversation, places in conversations.items():
            for placed, clips in self._clips.of(talk, conversation, places).items():
                for clip in clips:
                    name = f"{folder}clips/{conversation}/{placed}/{clip.kind}"
                    try:
                        yield Member(name, self._clips.get(talk, conversation, placed, clip.kind))
                    except NotFound:
                        continue  # Too old, or erased, since it was listed.


def _in_lines(folder: str, lines: Iterable[bytes]) -> Iterator[Member]:
    """Yields members with so many lines that none is large."""
    held: list[bytes] = []
    number = 0
    for line in lines:
        held.append(line + b"\n")
        if len(held) == LINES_MAX or sum(map(len, held)) > LINES_BYTES:
            yield Member(f"{folder}{number:06d}", b"".join(held))
            held, number = [], number + 1
    if held:
        yield Member(f"{folder}{number:06d}", b"".join(held))


def _erased(identity: str) -> NotFound:
    return NotFound(f"identity {identity!r} was erased while it was exported; what was written is not whole")
