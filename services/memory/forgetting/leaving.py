"""What goes with the last words of a person: that they are known with an identity, and at last that they are known."""

from collections.abc import Iterable, Iterator

from services.common.errors import Damaged
from services.memory import keys
from services.memory.forgetting.subjects import by_talk, scope_of, talk_at
from services.memory.keys import Talk
from services.memory.store import Entry, Object, Store
from services.memory.talks.persons import generation_of


class Leaving:
    """Takes people's indices and heads away from `store` with what they are of."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def leave(self, folder: str, entries: Iterable[Entry]) -> None:
        """To be called before `entries` are deleted, which are all that is below an identity's `folder`."""
        for talk in _talks(folder, entries):
            self.end(talk)

    def end(self, talk: Talk) -> None:
        """Deletes the index of a talk, and the head of a person who has no other."""
        self._store.delete([talk.index])
        if self._others(talk):
            return
        head = self._head(talk)
        if head is None:
            return
        key = keys.person(talk.scope.tenant, talk.person)
        self._store.delete([key])
        if self._others(talk):
            # They began to talk with another identity between the two steps. Who writes there meanwhile is refused.
            self._store.create(key, head.content)

    def end_all(self, folders: Iterable[str]) -> None:
        """Ends the talks with additions of identities that have these folders, also those of which no word is there.

        A writer who is killed leaves them so. It reads the indices of all persons of a tenant.
        """
        scopes = {scope for scope in map(scope_of, folders) if scope}
        for tenant in {scope.tenant for scope in scopes}:
            talks = (talk_at(tenant, entry.key) for entry in self._store.list(keys.persons_of_all(tenant)))
            for talk in talks:
                if talk.scope in scopes:
                    self.end(talk)

    def fade(self, talk: Talk) -> None:
        """Forgets a person of whom nothing is left with any identity; those go on who still talk.

        The head goes before the indices, so a writer that found it looks for it in vain, and takes back what it wrote.
        """
        if self._has_words(talk):
            return
        head = self._head(talk)  # Read last: who came back since has another, and a deletion has no condition.
        if head is None:
            return
        key = keys.person(talk.scope.tenant, talk.person)
        self._store.delete([key])
        if self._has_words(talk):
            self._store.create(key, head.content)  # They came between the two steps.
            return
        folder = keys.persons_of(talk.scope.tenant, talk.person, talk.generation)
        self._store.delete([entry.key for entry in self._store.list(folder)])

    def is_lost(self, talk: Talk) -> bool:
        """Tells whether the person is known no longer, and has left no words either."""
        return self._head(talk) is None and not self._has_words(talk)

    def forget(self, tenant: str, person: str) -> None:
        """Forgets a person who has no index: of them there is nothing with any identity."""
        key = keys.person(tenant, person)
        try:
            found = self._store.get(key)
            if not isinstance(found, Object):
                return
            folder = keys.persons_of(tenant, person, generation_of(key, found.content))
        except Damaged:
            return  # Whoever it is of: the one who talks next finds out.
        self._store.delete([key])
        if self._store.list(folder, limit=1):
            self._store.create(key, found.content)  # They came between the two steps.

    def sizes(self, folder: str, entries: Iterable[Entry]) -> Iterator[int]:
        """Yields the sizes of what `leave` would delete."""
        for talk in _talks(folder, entries):
            index = self._listed(talk)
            yield from (entry.size_bytes for entry in index if entry.key == talk.index)
            if not self._others(talk) and (head := self._head(talk)):
                yield len(head.content)

    def _others(self, talk: Talk) -> bool:
        return any(entry.key != talk.index for entry in self._listed(talk))

    def _has_words(self, talk: Talk) -> bool:
        folder = keys.persons_of(talk.scope.tenant, talk.person, talk.generation)
        talks = (talk_at(talk.scope.tenant, entry.key) for entry in self._store.list(folder))
        return any(self._store.list(each.folder, limit=1) for each in (talk, *talks))

    def _listed(self, talk: Talk) -> tuple[Entry, ...]:
        return self._store.list(keys.persons_of(talk.scope.tenant, talk.person, talk.generation), limit=2)

    def _head(self, talk: Talk) -> Object | None:
        """Returns the head of the person, if they still are of this generation."""
        key = keys.person(talk.scope.tenant, talk.person)
        try:
            found = self._store.get(key)
            if isinstance(found, Object) and generation_of(key, found.content) == talk.generation:
                return found
        except Damaged:
            pass  # Whoever it is of: the one who talks next finds out.
        return None


def _talks(folder: str, entries: Iterable[Entry]) -> Iterator[Talk]:
    """Yields the talks that have something among `entries`; below the folder of a person there is none."""
    scope = scope_of(folder)
    if scope:
        yield from (talk for talk, _ in by_talk(scope, entries))
