"""Forgets people of whom nothing is left but that they are known: whoever made them known, or forgot them, was killed.

Otherwise those go with their last words (`Leaving.fade`), and nobody needs to look for them.
"""

from collections.abc import Collection, Iterator
from itertools import groupby

from services.memory import keys
from services.memory.forgetting.leaving import Leaving
from services.memory.forgetting.subjects import talk_at
from services.memory.store import Store


class Fading:
    """Looks for such people in `store`. One thread calls at a time; any number of processes may do it at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leaving = Leaving(store)
        self._headless: dict[str, set[str]] = {}

    def steps(self, tenant: str, before_s: float, talking: Collection[str]) -> Iterator[None]:
        """Goes through the people of a tenant, and yields before each who is looked at: with most there are words.

        Args:
            tenant: Whose.
            before_s: Only who was known before that is looked at, by the store's clock.
            talking: The indices of talks in which something was found a moment ago.
        """
        names, headless = set[str](), set[str]()
        listed = self._store.list(keys.persons_of_all(tenant))
        for folder, group in groupby(listed, lambda entry: entry.key.rpartition("/")[0]):
            indices = list(group)
            talk = talk_at(tenant, indices[0].key)
            names.add(talk.person)
            if any(index.modified_s >= before_s or index.key in talking for index in indices):
                continue
            yield
            self._leaving.fade(talk)
            if self._leaving.is_lost(talk):
                headless.add(folder)
        # Whoever forgets a person may give back the head a moment later: so those go that had none the last time.
        for folder in headless & self._headless.get(tenant, set()):
            self._store.delete([index.key for index in self._store.list(f"{folder}/")])
        self._headless[tenant] = headless
        heads = keys.person(tenant, "")
        for entry in self._store.list(heads):
            name = entry.key.removeprefix(heads)
            if entry.modified_s < before_s and name not in names:
                yield
                self._leaving.forget(tenant, name)
