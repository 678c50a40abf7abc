"""What the readers of MeloTTS' languages give back: symbols with tones, and to which word piece of BERT they belong."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

PADDING: Final = "_"
UNREADABLE: Final = "[UNK]"


@dataclass(frozen=True)
class Phones:
    """A sentence in the symbols of MeloTTS.

    Attributes:
        symbols: Phonemes and marks, padding at both ends.
        tones: As many, counted on from language to language.
        counts: Symbols per word piece of BERT, its own marks at both ends included; they sum to the symbols.
    """

    symbols: tuple[str, ...]
    tones: tuple[int, ...]
    counts: tuple[int, ...]


def groups(word_pieces: Sequence[str]) -> list[list[str]]:
    """Puts the word pieces of BERT together to words; those that go on begin with "##"."""
    words: list[list[str]] = []
    for piece in word_pieces:
        if piece.startswith("#") and words:
            words[-1].append(piece.replace("#", ""))
        else:
            words.append([piece])
    return words


def with_pauses(word_pieces: Sequence[str]) -> list[str]:
    """Makes pauses of what BERT does not know, as Korean and Japanese are spoken."""
    return [PADDING if piece == UNREADABLE else piece for piece in word_pieces]


def spread(symbols: int, pieces: int) -> list[int]:
    """Returns how many symbols each piece of a word is given: as evenly as can be, the first ones more."""
    share, more = divmod(symbols, pieces)
    return [share + (place < more) for place in range(pieces)]


def phones(
    word_pieces: Sequence[str], say: Callable[[str], Iterable[str]], known: AbstractSet[str], tone: int
) -> Phones:
    """Pronounces the word pieces of a sentence in a language without tones.

    What the checkpoint has no symbol for is passed over, where upstream stops; so is what BERT does not know, where
    upstream says "unk".

    Args:
        word_pieces: Of BERT.
        say: Returns the symbols of a word or mark.
        known: The symbols of the checkpoint.
        tone: Of every symbol.
    """
    symbols, counts = [PADDING], [1]
    for group in groups(word_pieces):
        said = [] if group == [UNREADABLE] else [symbol for symbol in say("".join(group)) if symbol in known]
        symbols += said
        counts += spread(len(said), len(group))
    return Phones((*symbols, PADDING), (tone,) * (len(symbols) + 1), (*counts, 1))
