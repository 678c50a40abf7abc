"""Turns English into the symbols of MeloTTS, and says which of its symbols belong to which word piece of BERT."""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from services.tts.openvoice import lips
from services.tts.openvoice.text import numbers
from services.tts.openvoice.text.lexicon import CONSONANTS, Lexicon
from services.tts.openvoice.text.openvoice import Pronouncer
from services.tts.openvoice.text.word_pieces import PADDING, UNREADABLE, Phones, groups, spread
from services.tts.speech import sentences
from services.tts.speech.sentences import Sentence

TONE_START: Final = 7
"""English tones (0 no vowel, 1 to 3 the stress and one) stand behind six Chinese and a Japanese one."""
UNKNOWN: Final = "UNK"
_STRESSED: Final = re.compile(r"([A-Z]+)([012])")
_PLAIN: Final = frozenset([*CONSONANTS.split(), "ER", "IH"])
"""What occurs without a stress; the network's plain UW was unknown in training, and stays so."""


class English:
    """Reads English.

    Args:
        lexicon: Pronounces words.
    """

    shapes: Mapping[str, tuple[str, ...]] = lips.ARPABET
    needs: AbstractSet[str] = frozenset([*lips.ARPABET, UNKNOWN])
    audition = (
        "The boy was there when the sun rose. A rod is used to catch pink salmon, and the source is a clear spring."
    )
    """Of the Harvard sentences (IEEE, 1969), which hold English sounds in their usual shares."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""
        return sentences.split(sentences.clean(text))

    def read(
        self, sentence: str, pieces: Callable[[str], Sequence[str]], known: AbstractSet[str]
    ) -> tuple[str, Phones]:
        """Returns the sentence as BERT is given it, and its symbols."""
        text = normal(sentence)
        return text, phones(pieces(text), known, self._lexicon)


def create(models_dir: Path) -> English:
    """Opens the dictionaries.

    Raises:
        FileNotFoundError: `make models` has not brought one of them.
    """
    return English(Lexicon(models_dir / "english", Pronouncer()))


def normal(text: str) -> str:
    """Spells out times, numbers and abbreviations, in lower case."""
    text = numbers.money(re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower(), "€")
    return numbers.abbreviations(numbers.melo(numbers.times(text)))


def phones(word_pieces: Sequence[str], known: AbstractSet[str], lexicon: Lexicon) -> Phones:
    """Pronounces the word pieces of a sentence.

    Args:
        word_pieces: Of BERT; those that go on begin with "##".
        known: The symbols of the checkpoint.
        lexicon: Pronounces words.
    """
    symbols, tones, counts = [PADDING], [TONE_START], [1]
    for group in groups(word_pieces):
        # Upstream says "unk" where BERT knows no word for a sign; here it is passed over, as a reader does.
        phonemes = () if group == [UNREADABLE] else lexicon.phonemes("".join(group))
        said = [_symbol(phoneme, known) for phoneme in phonemes]
        symbols += [symbol for symbol, _ in said]
        tones += [TONE_START + tone for _, tone in said]
        counts += spread(len(said), len(group))
    return Phones((*symbols, PADDING), (*tones, TONE_START), (*counts, 1))


def _symbol(phoneme: str, known: AbstractSet[str]) -> tuple[str, int]:
    if found := _STRESSED.fullmatch(phoneme):
        symbol, tone = found[1].lower(), int(found[2]) + 1
    else:
        symbol, tone = (phoneme.lower() if phoneme in _PLAIN else phoneme), 0
    # The French v took the small letter.
    symbol = "V" if symbol == "v" else symbol
    return (symbol if symbol in known else UNKNOWN), tone
