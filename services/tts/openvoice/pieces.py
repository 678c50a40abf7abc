"""Cuts a text into the pieces that are spoken at once."""

from dataclasses import dataclass, replace

from services.common.errors import InvalidRequest
from services.tts.openvoice.speakers import Reading, Speaker
from services.tts.speech import sentences

PAUSE_S = 0.05
"""Between the pieces of a sentence, as upstream joins them."""


@dataclass(frozen=True)
class Piece:
    """A piece as it is read, and the pause after it when calm."""

    reading: Reading
    pause_s: float
    ends_text: bool = False


def cut(text: str, speaker: Speaker) -> list[Piece]:
    """Returns the pieces of a text, in order.

    Raises:
        InvalidRequest: Nothing in it has a sound.
    """
    pieces: list[Piece] = []
    for sentence in speaker.cut(text):
        found = [Piece(reading, PAUSE_S) for reading in speaker.read(sentence.text)]
        if found and not sentence.is_cut:
            found[-1] = replace(found[-1], pause_s=sentences.pause_s(sentence))
        pieces += found
    if not pieces:
        raise InvalidRequest("sentence", f"holds nothing that can be said in {speaker.language.name}: {text[:60]!r}")
    return [*pieces[:-1], replace(pieces[-1], ends_text=True)]
