"""What the rows of turns are made of: what the user said."""

from collections.abc import Collection, Sequence

from services.memory.keys import Talk
from services.memory.store import Store
from services.memory.talks.conversation import Conversation
from services.memory.vectors.block import Row


class SaidTexts:
    """What the user said in the turns of `talk`; satisfies `services.memory.vectors.renewal.Texts`."""

    def __init__(self, store: Store, talk: Talk) -> None:
        self._store = store
        self._talk = talk

    def text(self, row: Row) -> str:
        """Returns what was said; empty when the turn is not there, or not yet."""
        turn = self._there(row).brief(_placed(row))
        return turn.user_text if turn else ""

    def gone(self, rows: Sequence[Row]) -> Collection[str]:
        """Returns those of which the time is over: their ids say so before their rows go."""
        return [row.turn for row in rows if self._is_gone(row)]

    def _is_gone(self, row: Row) -> bool:
        seat = self._there(row).seat(_placed(row).partition("-")[2])
        return seat is None or seat.gone

    def _there(self, row: Row) -> Conversation:
        return Conversation(self._store, self._talk, row.conversation)


def _placed(row: Row) -> str:
    return row.turn.rpartition("/")[2]
