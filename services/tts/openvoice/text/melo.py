"""Turns English into the symbols of MeloTTS, and says which of its symbols belong to which word piece of BERT."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.tts.openvoice.text import numbers
from services.tts.openvoice.text.lexicon import CONSONANTS, Lexicon

LANGUAGE_ID: Final = 2
"""English, in every checkpoint."""
TONE_START: Final = 7
"""English tones (0 no vowel, 1 to 3 the stress and one) stand behind six Chinese and a Japanese one."""
PADDING: Final = "_"
UNKNOWN: Final = "UNK"
UNREADABLE: Final = "[UNK]"
_STRESSED: Final = re.compile(r"([A-Z]+)([012])")
_PLAIN: Final = frozenset([*CONSONANTS.split(), "ER", "IH"])
"""What occurs without a stress; the network's plain UW was unknown in training, and stays so."""


@dataclass(frozen=True)
class Phones:
    """A sentence in the symbols of MeloTTS.

    Attributes:
        symbols: Phonemes and marks, padding at both ends.
        tones: As many, `TONE_START` on.
        counts: Symbols per word piece of BERT, its own marks at both ends included; they sum to the symbols.
    """

    symbols: tuple[str, ...]
    tones: tuple[int, ...]
    counts: tuple[int, ...]


def normal(text: str) -> str:
    """Spells out times, numbers and abbreviations, in lower case."""
    text = numbers.money(re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower(), "€")
    return numbers.abbreviations(numbers.melo(numbers.times(text)))


def phones(word_pieces: Sequence[str], known: frozenset[str], lexicon: Lexicon) -> Phones:
    """Pronounces the word pieces of a sentence.

    Args:
        word_pieces: Of BERT; those that go on begin with "##".
        known: The symbols of the checkpoint.
        lexicon: Pronounces words.
    """
    symbols, tones, counts = [PADDING], [TONE_START], [1]
    for group in _words(word_pieces):
        # Upstream says "unk" where BERT knows no word for a sign; here it is passed over, as a reader does.
        phonemes = () if group == [UNREADABLE] else lexicon.phonemes("".join(group))
        said = [_symbol(phoneme, known) for phoneme in phonemes]
        symbols += [symbol for symbol, _ in said]
        tones += [TONE_START + tone for _, tone in said]
        share, more = divmod(len(said), len(group))
        counts += [share + (place < more) for place in range(len(group))]
    return Phones((*symbols, PADDING), (*tones, TONE_START), (*counts, 1))


def _words(word_pieces: Sequence[str]) -> list[list[str]]:
    words: list[list[str]] = []
    for piece in word_pieces:
        if piece.startswith("#") and words:
            words[-1].append(piece.replace("#", ""))
        else:
            words.append([piece])
    return words


def _symbol(phoneme: str, known: frozenset[str]) -> tuple[str, int]:
    if found := _STRESSED.fullmatch(phoneme):
        symbol, tone = found[1].lower(), int(found[2]) + 1
    else:
        symbol, tone = (phoneme.lower() if phoneme in _PLAIN else phoneme), 0
    # The French v took the small letter.
    symbol = "V" if symbol == "v" else symbol
    return (symbol if symbol in known else UNKNOWN), tone
