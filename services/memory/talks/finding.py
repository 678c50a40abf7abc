"""Finds the turns of a talk that are like a text: the nearest rows of the vectors, then the turns themselves."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.common.errors import Damaged
from services.memory.domain import Hit, Sought, Turn
from services.memory.keys import Talk
from services.memory.store import Store
from services.memory.talks.conversation import BYTES_MAX, Conversation
from services.memory.vectors.index import Vectors
from services.memory.vectors.nearest import Found, Wanted

SPARE = 8
"""So many more rows are looked at: of some the turn was never kept, or is gone."""


log = logging.getLogger(__name__)


def find(
    store: Store,
    vectors: Vectors,
    folder: str,
    talk: Talk,
    conversation: str,
    sought: Sought,
    toward: NDArray[np.float32],
    now_s: float,
) -> tuple[Hit, ...]:
    """Returns the turns that are most like what is sought, the most similar first; fewer when they are very long.

    Args:
        store: Where the turns are.
        vectors: Where the rows are.
        folder: The folder of the rows, which are of the model that made `toward`.
        talk: Whose turns.
        conversation: Only turns of this one; empty for all.
        sought: What.
        toward: Its text's place in meaning space, (dimensions,).
        now_s: Unix time.
    """
    wanted = Wanted(
        hits_max=sought.hits_max + len(sought.without) + SPARE,
        similarity_min=sought.similarity_min,
        conversation=conversation,
        labels=sought.user_emotions,
        since_s=now_s - sought.age_max_s if sought.age_max_s else -math.inf,
    )
    here = sought.here or conversation
    hits: list[tuple[str, Hit]] = []
    left_bytes = BYTES_MAX
    for placed, hit in _hits(store, talk, vectors.search(folder, toward, wanted)):
        if hit.turn.conversation == here and hit.turn.id in sought.without:
            continue
        left_bytes -= _bytes_of(hit.turn)
        if left_bytes < 0:
            break
        hits.append((placed, hit))
        if len(hits) == sought.hits_max:
            break
    return _with_turns_ago(Conversation(store, talk, here), here, hits)


def _bytes_of(turn: Turn) -> int:
    """Returns about how much of a message a turn takes."""
    said = len(turn.user_text.encode()) + len(turn.reply_text.encode())
    # A name is at most 63 letters, an entry's own bytes are few.
    variants = sum(len(name.encode()) + len(variant.encode()) + 8 for name, variant in turn.variants.items())
    return said + variants + 512


def _hits(store: Store, talk: Talk, rows: Sequence[Found]) -> Iterator[tuple[str, Hit]]:
    """Yields the turns of the rows, read one by one: as many as are taken.

    A row without its turn is passed over, and one of which the turn is damaged.
    """
    for row in rows:
        placed = row.turn.rpartition("/")[2]
        try:
            turn = Conversation(store, talk, row.conversation).brief(placed)
        except Damaged as error:
            log.error("a turn is damaged", extra={"why": str(error)})
            continue
        if turn:
            yield placed, Hit(turn, row.similarity, 0)


def _with_turns_ago(talk: Conversation, here: str, hits: Sequence[tuple[str, Hit]]) -> tuple[Hit, ...]:
    """Fills in how many turns ago those of the conversation `here` were; without one of it that costs nothing."""
    placed = [each for each, hit in hits if hit.turn.conversation == here]
    ago = talk.turns_ago(placed) if placed else {}
    return tuple(replace(hit, turns_ago=ago[each]) if hit.turn.conversation == here else hit for each, hit in hits)
