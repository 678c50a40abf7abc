"""The turns of one conversation as objects: appended by many writers at once, read from the end.

Two objects a turn, both created only when absent:

    <folder>/turn-ids/<conversation>/<turn id>             the place that this turn id has got
    <folder>/turns/<conversation>/<place>-<turn id>        the turn

The place is one more than the last that the writer saw, counted down from the largest, so that the newest turn has
the smallest key and a store that lists upwards finds it first. Writers at the same moment may get the same place;
then the turn's id decides, for all readers alike (Lamport, "Time, Clocks, and the Ordering of Events in a
Distributed System", 1978: a counter, so no clock needs to be right). The first object makes it idempotent: whoever
comes again with the id, at once or after a crash, gets the same place, hence the same second object.
"""

from dataclasses import dataclass

from services.memory.domain import Turn
from services.memory.records import Codec, damaged
from services.memory.store import Store, content_of

PLACE_MAX = 9_999_999_999
"""Ten digits."""

TURNS_MAX = 1000
"""At most so many are recalled."""

RECALL_BYTES_MAX = 2**20
"""At most so many bytes of turns are recalled, so that they fit into one message."""


@dataclass(frozen=True)
class Place:
    """Where in the conversation a turn stands."""

    countdown: int


_PLACES = Codec(Place)
_TURNS = Codec(Turn)


class Conversation:
    """The turns of `name`, kept in `folder` of `store`."""

    def __init__(self, store: Store, folder: str, name: str) -> None:
        self._store = store
        self._ids = f"{folder}turn-ids/{name}/"
        self._turns = f"{folder}turns/{name}/"

    def append(self, turn: Turn) -> None:
        """Keeps `turn` after those that are there; a turn id that is there already changes nothing."""
        id_key = self._ids + turn.id
        place = self._next_place()
        if self._store.create(id_key, _PLACES.encode(place)) is None:
            stored = content_of(self._store.get(id_key))
            if stored is None:
                return  # The whole conversation was removed meanwhile.
            place = _PLACES.decode(id_key, stored)
        self._store.create(self._key(place, turn.id), _TURNS.encode(turn))

    def last(self, turns_max: int) -> tuple[Turn, ...]:
        """Returns at most `turns_max` of the last turns, oldest first; fewer when they are very long."""
        newest_first: list[Turn] = []
        size_bytes = 0
        if turns_max == 0:
            return ()
        for entry in self._store.list(self._turns, limit=min(turns_max, TURNS_MAX)):
            content = content_of(self._store.get(entry.key))
            if content is None:
                continue  # Removed since the listing.
            size_bytes += len(content)
            if size_bytes > RECALL_BYTES_MAX:
                break
            newest_first.append(_TURNS.decode(entry.key, content))
        return tuple(reversed(newest_first))

    def _next_place(self) -> Place:
        newest = self._store.list(self._turns, limit=1)
        if not newest:
            return Place(PLACE_MAX)
        countdown, _, _ = newest[0].key.removeprefix(self._turns).partition("-")
        if not countdown.isdecimal() or int(countdown) == 0:
            raise damaged(newest[0].key, "its name is not that of a turn")
        return Place(int(countdown) - 1)

    def _key(self, place: Place, turn_id: str) -> str:
        return f"{self._turns}{place.countdown:010d}-{turn_id}"
