"""Whom avatars talk with: which generation of a person it is, and with which identities there is something of them."""

import secrets
from dataclasses import dataclass

from services.common.errors import InvalidRequest, NotFound, NotReady
from services.memory import keys
from services.memory.checks import check_handle
from services.memory.keys import Scope, Talk
from services.memory.records import Codec
from services.memory.store import Store, content_of

ROUNDS_MAX = 5
"""A person who is erased each time they are looked for is not looked for again."""


@dataclass(frozen=True)
class Person:
    """The head of a person: 32 hex digits that no other one has, so that nothing of an erased person turns up later."""

    generation: str


_PERSONS = Codec(Person)


class Persons:
    """The people in `store`. Calls block; any thread may call."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def talk(self, scope: Scope, person: str, conversation: str) -> Talk | None:
        """Returns where the talk of a person with an identity is; None when the person is unknown.

        Args:
            scope: The identity.
            person: Empty for somebody who is known in `conversation` only.
            conversation: May be empty when there is a person.

        Raises:
            InvalidRequest: A name is not allowed, or both are empty.
        """
        name = _name_of(person, conversation)
        generation = self._generation(scope.tenant, name)
        return Talk(scope, name, generation) if generation else None

    def made(self, scope: Scope, person: str, conversation: str, expected: str = "") -> Talk:
        """Returns where the talk of a person with an identity is, and makes the person known; see `talk`.

        Args:
            scope: The identity.
            person: As for `talk`.
            conversation: As for `talk`.
            expected: The only generation that is right; empty: any, and a person who is unknown becomes known.

        Raises:
            InvalidRequest: A name is not allowed, or both are empty.
            NotFound: The person is not of that generation any more.
            NotReady: The person is erased all the time.
        """
        name = _name_of(person, conversation)
        key = keys.person(scope.tenant, name)
        for _ in range(ROUNDS_MAX):
            generation = self._generation(scope.tenant, name)
            if expected and generation != expected:
                raise NotFound(f"person {name[2:]!r} was erased meanwhile; nothing of this call is kept")
            if not generation:
                self._store.create(key, _PERSONS.encode(Person(secrets.token_hex(16))))
                continue  # Read it again: of several writers one has won.
            talk = Talk(scope, name, generation)
            self._store.create(talk.index, b"")
            if self._generation(scope.tenant, name) == generation:
                return talk
            self.withdraw(talk)  # Erased since: whoever did that may have looked for indices before this one.
        raise NotReady("the person is being erased; retry")

    def check_still(self, talk: Talk) -> None:
        """After a write below the talk's folder: an erasure that began meanwhile may have looked before it was there.

        Raises:
            NotFound: The person was erased; what was written is gone too.
        """
        if self._generation(talk.scope.tenant, talk.person) != talk.generation:
            self._store.delete([entry.key for entry in self._store.list(talk.folder)])
            self.withdraw(talk)
            raise NotFound(f"person {talk.person[2:]!r} was erased meanwhile; nothing of this call is kept")

    def withdraw(self, talk: Talk) -> None:
        """Says that nothing of the talk is there any more; call it when that is so."""
        self._store.delete([talk.index])

    def _generation(self, tenant: str, name: str) -> str:
        """Returns the generation of a person; empty when it is unknown."""
        key = keys.person(tenant, name)
        content = content_of(self._store.get(key))
        return "" if content is None else generation_of(key, content)


def generation_of(key: str, content: bytes) -> str:
    """Returns the generation of the person whose head this is.

    Raises:
        Damaged: It is not what was written; the message names it.
    """
    return _PERSONS.decode(key, content).generation


def _name_of(person: str, conversation: str) -> str:
    if person:
        check_handle("person", person)
    if conversation:
        check_handle("conversation", conversation)
    if not person and not conversation:
        raise InvalidRequest("conversation", "it is empty, and no person is named; name one of them")
    return keys.person_of(person, conversation)
