"""What was said: kept, recalled, found again and listed, for one person with one identity.

A turn is kept in these steps: the person's head and its index, the place of the turn's id, the row by which it is
found, the turn itself. With the last one it is there. Each is the same when it is done again, so a call that was cut
short anywhere is repeated with the same turn id. Then comes the question whether identity and person still are there,
for an erasure may have looked before the last write.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from services.common.errors import Damaged, DeadlineExceeded, InvalidRequest, NotFound, NotReady
from services.memory import keys
from services.memory.checks import check_handle
from services.memory.domain import ANYBODY, CLIP_USES, Clip, ClipKind, Hit, Recalled, Sought, Turn, Use
from services.memory.keys import Scope, Talk
from services.memory.records import digest_of
from services.memory.registry.registry import Registry
from services.memory.store import Store
from services.memory.talks.clips import Clips, check_clip
from services.memory.talks.conversation import Conversation, Turns, is_of
from services.memory.talks.finding import find
from services.memory.talks.persons import Persons
from services.memory.talks.texts import SaidTexts
from services.memory.talks.turn_checks import check_sought, check_timings, check_turn
from services.memory.vectors.block import Row
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from services.memory.vectors.renewal import Renewal

PAGE_MAX = 200
"""Most turns on a page."""

TURNS_A_TIDYING = 16
"""After one turn of so many, on average, small blocks of vectors are merged; mostly there is nothing to merge, and that
costs a listing. `benchmarks.memory` prints what a merge takes."""

log = logging.getLogger(__name__)


class Talks:
    """What was said to the identities of `registry`. Calls block; any thread may call.

    Beside what is said at each method, they raise `InvalidRequest` for a name or field that is not allowed, `Damaged`
    for a stored object that is not what was written, and `NotReady` when the store cannot be reached.

    Args:
        store: Where everything is.
        registry: Knows the identities.
        persons: Knows the people.
        vectors: Finds turns.
        embedding: Gives texts their places in meaning space.
        clock: Unix time. No order depends on it.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        persons: Persons,
        vectors: Vectors,
        embedding: Embedding,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._registry, self._persons = store, registry, persons
        self._vectors, self._embedding, self._clock = vectors, embedding, clock
        self._clips = Clips(store)
        self._renewal = Renewal(store, vectors, embedding)

    @property
    def model_digest(self) -> str:
        """SHA-256 (hex) of the sentence embedding."""
        return self._embedding.digest

    def last(self, scope: Scope, person: str, conversation: str, turns_max: int) -> Turns:
        """Returns at most `turns_max` of the last turns, oldest first, without what is not recalled; "" has none."""
        talk = self._persons.talk(scope, person, conversation) if conversation else None
        if talk is None:
            return Turns()
        last = Conversation(self._store, talk, conversation).last(turns_max)
        return replace(last, person_generation=talk.generation)

    def remember(
        self,
        tenant: str,
        identity: str,
        person: str,
        conversation: str,
        turn: Turn,
        recalled: Recalled = ANYBODY,
    ) -> None:
        """Keeps a turn, with the time of the memory's clock; a turn id that the conversation has changes nothing.

        Raises:
            NotFound: The identity is unknown, or it or the person was erased meanwhile, also when another came in
                their place since they were `recalled`; nothing is kept then.
            FailedPrecondition: There is no permission to keep turns.
        """
        check_handle("conversation", conversation)
        check_turn(turn)
        scope = self._found(tenant, identity, {Use.KEEP_TURNS})
        if recalled.identity and recalled.identity != scope.generation:
            raise NotFound(f"identity {identity!r} was erased since it was recalled for this turn; nothing is kept")
        talk = self._persons.made(scope, person, conversation, recalled.person)
        there = Conversation(self._store, talk, conversation)
        seat = there.reserve(turn.id, self._clock())
        if seat.gone:
            return
        if seat.new or not there.has(seat.placed):
            said = replace(turn, said_at_s=seat.said_at_s)
            self._add_rows(talk, conversation, [(seat.placed, said)])
            there.keep(seat.placed, said)
            if tidies_up(turn.id):
                self._tidy_up(talk)
            self._renew(talk)
        self._check_still(talk)

    def search(self, tenant: str, identity: str, person: str, conversation: str, sought: Sought) -> tuple[Hit, ...]:
        """Returns past turns of a person with an identity that are like a text, without vote records and timings.

        Args:
            tenant: Whose identity.
            identity: Which.
            person: Empty for somebody who is known in one conversation only, in `conversation` or in `sought.here`.
            conversation: Only turns of this one; empty for all of the person's.
            sought: What.

        Raises:
            NotFound: The identity is unknown, or it or the person was erased meanwhile.
            FailedPrecondition: There is no permission to keep turns.
        """
        check_sought(sought)
        for field, name in (("conversation", conversation), ("here", sought.here)):
            if name:
                check_handle(field, name)
        scope = self._found(tenant, identity, {Use.KEEP_TURNS})
        talk = self._persons.talk(scope, person, conversation or sought.here)
        toward = self._embedding.of(sought.text) if talk else None
        if talk is None or toward is None:
            return ()
        if self._renew(talk):
            self._check_still(talk)
        folder = talk.vectors(self._embedding.digest)
        return find(self._store, self._vectors, folder, talk, conversation, sought, toward, self._clock())

    def turns(self, tenant: str, identity: str, person: str, conversation: str, page_size: int, after: str) -> Turns:
        """Returns a page of turns, the newest first, whole and with their clips.

        A page ends early when its turns are very long; the last one is followed by "".

        Raises:
            NotFound: The identity is unknown.
        """
        if not 1 <= page_size <= PAGE_MAX:
            raise InvalidRequest("page_size", f"{page_size} turns; ask for 1 to {PAGE_MAX}")
        check_handle("conversation", conversation)
        talk = self._persons.talk(self._found(tenant, identity), person, conversation)
        if talk is None:
            return Turns()
        page, places = Conversation(self._store, talk, conversation).page(page_size, after)
        clips = self._clips.of(talk, conversation, places)
        turns = (replace(turn, clips=clips[placed]) for turn, placed in zip(page.turns, places, strict=True))
        return replace(page, turns=tuple(turns))

    def put_clip(
        self, tenant: str, identity: str, person: str, conversation: str, turn_id: str, kind: ClipKind, content: bytes
    ) -> Clip:
        """Keeps the speech or the video of a turn, in the place of the one that there may be.

        Raises:
            NotFound: The identity or the turn is unknown, or was erased meanwhile; nothing is kept then.
            FailedPrecondition: There is no permission to keep turns.
        """
        check_clip(kind, content)
        talk, placed = self._placed(tenant, identity, person, conversation, turn_id, {Use.KEEP_TURNS})
        clip = self._clips.put(talk, conversation, placed, kind, content)
        self._check_still(talk)
        return clip

    def put_timings(
        self,
        tenant: str,
        identity: str,
        person: str,
        conversation: str,
        turn_id: str,
        timings_s: dict[str, float],
    ) -> None:
        """Keeps how long the stages of a turn took, once it is over; those that came first stay.

        Raises:
            NotFound: The identity or the turn is unknown, or was erased meanwhile; nothing is kept then.
            FailedPrecondition: There is no permission to keep turns.
        """
        if not timings_s:
            raise InvalidRequest("timings_s", "it is empty; name each stage with the seconds that it took")
        check_timings("timings_s", timings_s)
        talk, placed = self._placed(tenant, identity, person, conversation, turn_id, {Use.KEEP_TURNS})
        Conversation(self._store, talk, conversation).keep_timings(placed, timings_s)
        self._check_still(talk)

    def clip(self, tenant: str, identity: str, person: str, conversation: str, turn_id: str, kind: ClipKind) -> bytes:
        """Returns the speech or the video of a turn, which is what was kept: its SHA-256 is checked.

        Raises:
            NotFound: The identity or the turn is unknown, or the turn has no such clip.
            FailedPrecondition: The voice may not be cloned any more, or in a video the face not be animated.
        """
        talk, placed = self._placed(tenant, identity, person, conversation, turn_id, CLIP_USES[kind])
        return self._clips.get(talk, conversation, placed, kind)

    def restore(self, talk: Talk, conversation: str, turns: Sequence[tuple[str, Turn]]) -> None:
        """Keeps turns of an archive at their places, "<place>-<turn>", and with their times.

        Neither identity nor person is looked for, and nobody else writes there yet; `Persons.made` made the talk.
        """
        check_handle("conversation", conversation)
        for placed, turn in turns:
            check_turn(turn)
            if not is_of(placed, turn.id):
                raise InvalidRequest("turn", f"{placed[:80]!a} is no place of turn {turn.id!r}")
        there = Conversation(self._store, talk, conversation)
        for placed, turn in turns:
            there.reserve_again(placed, turn)
        self._add_rows(talk, conversation, turns)
        for placed, turn in turns:
            there.keep(placed, turn)

    def drop_idle(self, idle_s: float) -> None:
        """Holds nothing in memory any longer that nobody asked for in so many seconds."""
        self._vectors.drop_idle(idle_s)
        self._embedding.drop_idle(idle_s)
        self._renewal.drop_idle(idle_s)

    def _found(self, tenant: str, identity: str, uses: Collection[str] = ()) -> Scope:
        try:
            return self._registry.found(tenant, identity, uses).scope
        except NotFound:
            self._vectors.forget(keys.identity_folder(tenant, identity))
            raise

    def _placed(
        self, tenant: str, identity: str, person: str, conversation: str, turn_id: str, uses: Collection[str] = ()
    ) -> tuple[Talk, str]:
        """Returns where a turn is: its talk, and "<place>-<turn>"."""
        check_handle("conversation", conversation)
        check_handle("turn", turn_id)
        talk = self._persons.talk(self._found(tenant, identity, uses), person, conversation)
        if talk is None:
            raise _unknown(turn_id)
        return talk, self._placed_of(talk, conversation, turn_id)

    def _placed_of(self, talk: Talk, conversation: str, turn_id: str) -> str:
        there = Conversation(self._store, talk, conversation)
        seat = there.seat(turn_id)
        if seat is None or not there.has(seat.placed):
            raise _unknown(turn_id)
        return seat.placed

    def _add_rows(self, talk: Talk, conversation: str, turns: Sequence[tuple[str, Turn]]) -> None:
        """Adds the rows by which turns are found; one in which the user said no words has none."""
        vectors = self._embedding.of_all([turn.user_text for _, turn in turns])
        rows = [
            Row(keys.row_of(conversation, placed), turn.said_at_s, conversation, turn.user_emotion, vector)
            for (placed, turn), vector in zip(turns, vectors, strict=True)
            if vector is not None
        ]
        if rows:
            self._vectors.add(talk.vectors(self._embedding.digest), rows)

    def _tidy_up(self, talk: Talk) -> None:
        """Merges small blocks. It may fail: the turn is there, and a later one merges them."""
        try:
            self._vectors.compact(talk.vectors(self._embedding.digest))
        except (NotReady, DeadlineExceeded, Damaged) as error:
            log.warning("vectors are not merged", extra={"why": str(error)})

    def _renew(self, talk: Talk) -> bool:
        """Makes some rows of another sentence embedding anew; tells whether it may have written. It may fail."""
        try:
            return self._renewal.renew(talk.models, SaidTexts(self._store, talk))
        except (NotReady, DeadlineExceeded, Damaged) as error:
            log.warning("vectors of another model are not made anew", extra={"why": str(error)})
            return True

    def _check_still(self, talk: Talk) -> None:
        """After a write, the last one: an erasure that began meanwhile may have looked before it was there."""
        try:
            self._registry.check_still(talk.scope)
            self._persons.check_still(talk)
        except NotFound:
            self._vectors.forget(talk.folder)
            raise


def tidies_up(turn_id: str) -> bool:
    """Tells whether the vectors are tidied up after this turn: by its id, so that no replica has to count."""
    return int(digest_of(turn_id.encode())[:8], 16) % TURNS_A_TIDYING == 0


def _unknown(turn_id: str) -> NotFound:
    return NotFound(f"turn {turn_id!r} is unknown; use one that ListTurns tells")
