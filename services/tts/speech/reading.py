"""Reads texts aloud, on paper: sentence by sentence, as phonemes."""

import json
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from itertools import chain
from typing import NamedTuple

from hibari.g2p import G2P

from services.common.errors import InvalidRequest
from services.tts.speech import lips, sentences
from services.tts.speech.sentences import Sentence

EDGE = ""
"""Stands for the start and the end of an utterance, to which the networks give time too."""


class Dictionary:
    """Hibari's dictionary: English in the alphabet of Kokoro, which hibari shares.

    Attributes:
        symbols: Number of each letter of the alphabet.
    """

    def __init__(self, is_british: bool = False) -> None:
        """Loads it; about 1 s."""
        self.symbols: dict[str, int] = json.loads(
            resources.files("hibari").joinpath("assets/vocab.json").read_text("utf-8")
        )
        self._g2p = G2P(british=is_british)
        # It has no such word, so the network that reads unknown ones is loaded now, and not when somebody waits.
        self._g2p("Zyxoprane")

    def phonemes(self, text: str) -> str:
        """Reads `text`, which is clean, as phonemes; "" if nothing in it has a sound."""
        return "".join(symbol for symbol in self._g2p(text) if symbol in self.symbols)

    def ids(self, symbols: Sequence[str]) -> list[int]:
        """Returns the numbers of the symbols, edges included."""
        return [self.symbols.get(symbol, 0) for symbol in symbols]


class Reading(NamedTuple):
    """A sentence with its sounds; `ends_text` on the last of a text."""

    sentence: Sentence
    phonemes: str
    ends_text: bool


def readings(texts: Sequence[str], phonemes: Callable[[str], str]) -> Iterator[Reading]:
    """Reads the texts in order. The first sentence is read at once, the others when they are asked for.

    Args:
        texts: What to say.
        phonemes: How a sentence is read.

    Raises:
        InvalidRequest: Nothing in a text has a sound.
    """
    found = chain.from_iterable(_read(text, phonemes) for text in texts)
    return chain([next(found)], found)


def _read(text: str, phonemes: Callable[[str], str]) -> Iterator[Reading]:
    waiting = None
    for sentence in sentences.split(sentences.clean(text)):
        sounds = phonemes(sentence.text)
        if not any(map(lips.is_sound, sounds)):
            continue
        if waiting:
            yield waiting
        waiting = Reading(sentence, sounds, ends_text=False)
    if waiting is None:
        raise InvalidRequest("sentence", f"holds nothing that can be said in English: {text[:60]!r}")
    yield waiting._replace(ends_text=True)
