"""Says how English words are pronounced in ARPAbet, as MeloTTS was trained to: two dictionaries, then a network.

`cmudict.rep` is CMUdict 0.6, which MeloTTS ships (public domain); `g2p.npz` is the network of Park and Kim's `g2p_en`
(Apache-2.0): a GRU that reads letters and a GRU that writes phonemes. Neither needs a download at run time.
"""

import re
import unicodedata
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.tts.openvoice.text.openvoice import Pronouncer

Floats = NDArray[np.float32]

DICTIONARY: Final = "cmudict.rep"
NETWORK: Final = "g2p.npz"
PHONEMES_MAX: Final = 20
"""The network writes at most this many for a word."""

_LETTERS: Final = {letter: place for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz", start=3)}
_UNKNOWN, _END_OF_WORD = 1, 2
_START, _END = 2, 3
CONSONANTS: Final = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
_VOWELS: Final = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
_STRESSED: Final = [vowel + stress for vowel in _VOWELS.split() for stress in "012"]
_PHONEMES: Final = ("<pad>", "<unk>", "<s>", "</s>", *sorted([*CONSONANTS.split(), "UW", *_STRESSED]))
"""The network's outputs: ARPAbet in the order of the alphabet; UW is there without a stress too."""


class Lexicon:
    """Pronounces any English word.

    Args:
        folder: Where `cmudict.rep` and `g2p.npz` are; `make models` puts them there.
        pronouncer: The dictionary that is asked second, for the words that came after CMUdict 0.6.

    Raises:
        FileNotFoundError: One of the two is missing.
    """

    def __init__(self, folder: Path, pronouncer: Pronouncer) -> None:
        for name in (DICTIONARY, NETWORK):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"{folder / name} is missing; `make models` puts it there")
        self._words = read_words(folder / DICTIONARY)
        self._pronouncer = pronouncer
        self._network = _Network(folder / NETWORK)

    def phonemes(self, word: str) -> tuple[str, ...]:
        """Returns the phonemes of a lower-case word, vowels with their stress ("AH0"); a mark is itself."""
        if known := self._words.get(word.upper()):
            return known
        bare = "".join(letter for letter in unicodedata.normalize("NFD", word) if unicodedata.category(letter) != "Mn")
        bare = re.sub(r"[^a-z'.,?!\-]", "", bare.lower())
        if not re.search("[a-z]", bare):
            return (bare,) if bare else ()
        return self._pronouncer.first(bare) or self._network.phonemes(bare)


class _Network:
    """A GRU of 128 units that reads the letters, and one that starts from its state and writes phonemes."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as arrays:
            self._arrays: dict[str, Floats] = dict(arrays)

    def phonemes(self, word: str) -> tuple[str, ...]:
        arrays = self._arrays
        state = np.zeros(arrays["enc_w_hh"].shape[1], np.float32)
        for letter in [*(_LETTERS.get(letter, _UNKNOWN) for letter in word), _END_OF_WORD]:
            state = self._step("enc", arrays["enc_emb"][letter], state)
        said: list[str] = []
        last = _START
        while len(said) < PHONEMES_MAX:
            state = self._step("dec", arrays["dec_emb"][last], state)
            last = int(np.argmax(arrays["fc_w"] @ state + arrays["fc_b"]))
            if last == _END:
                break
            said.append(_PHONEMES[last])
        return tuple(said)

    def _step(self, part: str, given: Floats, state: Floats) -> Floats:
        arrays = self._arrays
        new = arrays[f"{part}_w_ih"] @ given + arrays[f"{part}_b_ih"]
        old = arrays[f"{part}_w_hh"] @ state + arrays[f"{part}_b_hh"]
        (reset_new, update_new, value_new), (reset_old, update_old, value_old) = np.split(new, 3), np.split(old, 3)
        reset = 1 / (1 + np.exp(-(reset_new + reset_old)))
        update = 1 / (1 + np.exp(-(update_new + update_old)))
        mixed: Floats = (1 - update) * np.tanh(value_new + reset * value_old) + update * state
        return mixed


def read_words(path: Path) -> dict[str, tuple[str, ...]]:
    """Reads "WORD  S IH1 - L AH0 - B AH0 L"; lines of "##" are comments, "WORD(2)" is a second pronunciation."""
    words = {}
    for line in path.read_text("utf-8").splitlines():
        word, _, phonemes = line.partition("  ")
        if phonemes and not word.startswith("##") and not word.endswith(")"):
            words[word] = tuple(phoneme for phoneme in phonemes.split() if phoneme != "-")
    return words
