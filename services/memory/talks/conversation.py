"""The turns of one conversation as objects: appended by many writers at once, read from the end.

Two objects a turn, both created only when absent: the place that its id has got, and the turn at that place (`Talk`
says where); and a third when it is over, how long its stages took. The place is one more than the last that the writer
saw, counted down from the largest, so that the newest turn has the smallest key and a store that lists upwards finds it
first. Writers at the same moment may get the same place; then the turn's id decides, for all readers alike (Lamport,
"Time, Clocks, and the Ordering of Events in a Distributed System", 1978: a counter, so no clock needs to be right). The
first object makes it idempotent: whoever comes again with the id, at once or after a crash, gets the same place and the
same time, hence the same turn.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from services.common.errors import Damaged, InvalidRequest, NotReady
from services.memory.domain import Turn
from services.memory.keys import Talk
from services.memory.records import Codec, damaged
from services.memory.store import Store, content_of

PLACE_MAX = 9_999_999_999
"""Ten digits."""

TURNS_MAX = 1000
"""At most so many are recalled."""

BYTES_MAX = 2**20
"""At most so many bytes of turns are read at once, so that they fit into one message; one turn always does."""

COUNTED_MAX = 64
"""So many turns back are counted one by one; what is said to be longer ago need not be that exact."""

log = logging.getLogger(__name__)

_PLACED = re.compile(r"[0-9]{10}-[A-Za-z0-9-]{1,63}\Z")


@dataclass(frozen=True)
class Place:
    """Where in the conversation a turn stands, and when it came: Unix time.

    `countdown` 0 is no place: the turn was there, and its time is over.
    """

    countdown: int
    said_at_s: float


@dataclass(frozen=True)
class Seat:
    """What a turn id has got.

    Attributes:
        placed: "<place>-<turn>", the last part of the turn's key.
        said_at_s: When the turn came first, Unix time.
        new: False when the id had a place already.
        gone: The turn was there, and its time is over; it is not to be kept again.
    """

    placed: str
    said_at_s: float
    new: bool = False
    gone: bool = False


@dataclass(frozen=True)
class Timings:
    """Seconds that each stage of a turn took."""

    seconds: dict[str, float]


@dataclass(frozen=True)
class Turns:
    """Turns, but those that are damaged.

    Attributes:
        turns: Those that could be read.
        damaged: What is wrong with each object that could not: a text that names it.
        following: What the next page is after; empty when nothing follows.
        person_generation: Of whose they are; filled when they are recalled.
    """

    turns: tuple[Turn, ...] = ()
    damaged: tuple[str, ...] = ()
    following: str = ""
    person_generation: str = ""


@dataclass(frozen=True)
class _Found:
    """A turn that was read, at most how many bytes it takes, and what is wrong with its last timings."""

    turn: Turn
    size_bytes: int
    problem: str = ""


PLACES = Codec(Place)
_TURNS = Codec(Turn)
_TIMINGS = Codec(Timings)


class Conversation:
    """The turns of the conversation `name` of `talk`. Calls block; any thread may call."""

    def __init__(self, store: Store, talk: Talk, name: str) -> None:
        self._store = store
        self._talk = talk
        self._name = name

    def reserve(self, turn_id: str, now_s: float) -> Seat:
        """Returns the seat of a turn, after all turns that are there; one that has a seat keeps it.

        Raises:
            NotReady: The turn is being erased.
        """
        return self._reserve(turn_id, Place(self._next_countdown(), now_s))

    def reserve_again(self, placed: str, turn: Turn) -> None:
        """Gives a turn the place and the time that it had in another store."""
        self._reserve(turn.id, Place(_countdown(placed), turn.said_at_s))

    def seat(self, turn_id: str) -> Seat | None:
        """Returns the seat of a turn; None when it has none."""
        key = self._talk.turn_id(self._name, turn_id)
        content = content_of(self._store.get(key))
        if content is None:
            return None
        place = PLACES.decode(key, content)
        return Seat(_placed(place, turn_id), place.said_at_s, gone=place.countdown == 0)

    def keep(self, placed: str, turn: Turn) -> None:
        """Keeps a turn at its place; one that is there stays."""
        # What is filled when it is read is not stored.
        stored = replace(turn, clips=(), conversation="")
        self._store.create(self._talk.turn(self._name, placed), _TURNS.encode(stored))

    def keep_timings(self, placed: str, seconds: dict[str, float]) -> None:
        """Keeps how long the stages of the turn at a place took; what is there stays."""
        self._store.create(self._talk.timings(self._name, placed), _TIMINGS.encode(Timings(seconds)))

    def has(self, placed: str) -> bool:
        """Tells whether there is a turn at a place."""
        return self._found(placed) is not None

    def read(self, placed: str) -> Turn | None:
        """Returns the turn at a place, with vote record and timings; None when there is none.

        Raises:
            Damaged: It or its last timings are not what was written; the message names the object.
        """
        found = self._found(placed)
        return self._timed(found, placed).turn if found else None

    def brief(self, placed: str) -> Turn | None:
        """Returns the turn at a place without what is not recalled: vote record and timings.

        Raises:
            Damaged: It is not what was written; the message names the object.
        """
        found = self._brief(placed)
        return found.turn if found else None

    def last(self, turns_max: int) -> Turns:
        """Returns the last turns, oldest first, as `brief` does; fewer when they are very long.

        At most `turns_max`, damaged ones counted.
        """
        if turns_max == 0:
            return Turns()
        read, _ = self._fitting(self.newest(min(turns_max, TURNS_MAX)), self._brief)
        return Turns(read.turns[::-1], read.damaged)

    def page(self, size: int, after: str) -> tuple[Turns, tuple[str, ...]]:
        """Returns turns, the newest first, and their places: at most `size`, damaged ones counted.

        They are whole, as `read` returns them; one whose last timings are damaged has its first ones.

        Raises:
            InvalidRequest: `after` is not what a page returned.
        """
        if after and not _PLACED.match(after):
            raise InvalidRequest("page_token", f"{after[:80]!a} is none; send what the page before returned")
        listed = self.newest(size + 1, after)
        timed = self._with_timings(listed[:size], after)

        def read_one(placed: str) -> _Found | None:
            found = self._found(placed)
            if found is None or placed not in timed:
                return found
            try:
                return self._timed(found, placed)
            except Damaged as error:
                return replace(found, problem=str(error))

        read, places = self._fitting(listed[:size], read_one)
        return replace(read, following=read.following or (listed[size - 1] if len(listed) > size else "")), places

    def newest(self, count: int, after: str = "") -> list[str]:
        """Returns the places of so many turns, the newest first: those before the one at `after`."""
        folder = self._talk.turns(self._name)
        entries = self._store.list(folder, limit=count, after=folder + after if after else "")
        return [entry.key.removeprefix(folder) for entry in entries]

    def turns_ago(self, placed: Iterable[str], counted_max: int = COUNTED_MAX) -> dict[str, int]:
        """Returns how many turns ago these were, 1 for the last turn.

        The keys of the last `counted_max` turns are counted. What is before them is told by its place, which takes
        two turns that were said at the same moment for one.
        """
        listed = self.newest(counted_max)
        ago = {each: number for number, each in enumerate(listed, start=1)}
        last = _countdown(listed[-1]) if listed else PLACE_MAX
        return {each: ago.get(each) or len(listed) + max(1, _countdown(each) - last) for each in placed}

    def _with_timings(self, listed: Sequence[str], after: str) -> set[str]:
        """Returns of which of these places, those after `after`, there are timings: mostly that is one listing."""
        folder = self._talk.timings(self._name, "")
        found: set[str] = set()
        while listed and (entries := self._store.list(folder, len(listed), folder + after if after else "")):
            found.update(entry.key.removeprefix(folder) for entry in entries)
            after = entries[-1].key.removeprefix(folder)
            if len(entries) < len(listed) or after >= listed[-1]:
                break
        return found

    def _fitting(
        self, listed: Sequence[str], read_one: Callable[[str], _Found | None]
    ) -> tuple[Turns, tuple[str, ...]]:
        """Returns the turns at these places as far as a message holds them, and the places that they have."""
        turns: dict[str, Turn] = {}
        problems: list[str] = []
        left_bytes, following = BYTES_MAX, ""
        for before, placed in pairwise(["", *listed]):
            try:
                found = read_one(placed)
            except Damaged as error:
                problems.append(str(error))
                continue
            if found is None:
                continue  # Removed since the listing.
            left_bytes -= found.size_bytes
            if left_bytes < 0:
                following = before
                break
            turns[placed] = found.turn
            problems += [found.problem] if found.problem else []
        for problem in problems:
            log.error("a turn is damaged", extra={"why": problem})
        return Turns(tuple(turns.values()), tuple(problems), following), tuple(turns)

    def _brief(self, placed: str) -> _Found | None:
        """Returns the turn at a place without vote record and timings."""
        found = self._found(placed)
        if found is None:
            return None
        turn = replace(found.turn, vote_record="", timings_s={})
        return _Found(turn, found.size_bytes - len(found.turn.vote_record))

    def _timed(self, found: _Found, placed: str) -> _Found:
        """Returns the turn that was found at a place with its last timings."""
        key = self._talk.timings(self._name, placed)
        content = content_of(self._store.get(key))
        if content is None:
            return found
        turn = replace(found.turn, timings_s=_TIMINGS.decode(key, content).seconds)
        return _Found(turn, found.size_bytes + len(content))

    def _found(self, placed: str) -> _Found | None:
        """Returns the turn at a place."""
        key = self._talk.turn(self._name, placed)
        content = content_of(self._store.get(key))
        if content is None:
            return None
        return _Found(replace(_TURNS.decode(key, content), conversation=self._name), len(content))

    def _reserve(self, turn_id: str, place: Place) -> Seat:
        if self._store.create(self._talk.turn_id(self._name, turn_id), PLACES.encode(place)) is not None:
            return Seat(_placed(place, turn_id), place.said_at_s, new=True)
        seat = self.seat(turn_id)
        if seat is None:
            raise NotReady(f"turn {turn_id!r} is being erased; retry")
        return seat

    def _next_countdown(self) -> int:
        newest = self.newest(1)
        if not newest:
            return PLACE_MAX
        if not _PLACED.match(newest[0]) or _countdown(newest[0]) <= 1:
            raise damaged(self._talk.turn(self._name, newest[0]), "its name is not that of a turn")
        return _countdown(newest[0]) - 1


def is_of(placed: str, turn_id: str) -> bool:
    """Tells whether `placed` is "<place>-<turn>" of this turn."""
    return _PLACED.match(placed) is not None and placed.partition("-")[2] == turn_id


def _countdown(placed: str) -> int:
    return int(placed.partition("-")[0])


def _placed(place: Place, turn_id: str) -> str:
    return f"{place.countdown:010d}-{turn_id}"
