"""Turns Korean into the symbols of MeloTTS: letters of Hangul (jamo), as they sound.

The rules of pronunciation are those of the package `g2pkk` (Apache-2.0), called part by part: its own driver installs
packages and downloads a dictionary when it is imported, so that its module is never executed.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from jamo import h2j, hangul_to_jamo
from mecab import MeCab

from services.tts.openvoice.shapes import JAMO
from services.tts.openvoice.text import word_pieces
from services.tts.openvoice.text.cutting import cut
from services.tts.openvoice.text.lexicon import DICTIONARY, read_words
from services.tts.openvoice.text.tables import assigned, source
from services.tts.openvoice.text.word_pieces import PADDING, Phones
from services.tts.speech.sentences import Sentence

TONE: Final = 11
"""It has one, behind the six of Chinese, one of Japanese and four of English."""
CHARACTERS_MAX: Final = 90
"""About 14 s of speech."""
MARKS: Final = frozenset(["!", "?", "…", ",", ".", "'", "-", "¿", "¡"])
_HAN: Final = re.compile("[⺀-⺙⺛-⻳⼀-⿕々〇〡-〩〸-〺〻㐀-䶵一-鿃豈-鶴侮-頻並-龎]")
_SPECIAL: Final = (
    *("jyeo", "ye", "consonant_ui", "josa_ui", "vowel_ui", "jamo", "rieulgiyeok", "rieulbieub", "verb_nieun", "balb"),
    *("palatalize", "modifying_rieul"),
)
"""Rules with an eye for grammar, in their order."""

Words = Mapping[str, str]


class Rules:
    """Pronounces Korean.

    Args:
        english: The ARPAbet of English words, lower case.

    Raises:
        ModuleNotFoundError: `g2pkk` is not installed.
    """

    def __init__(self, english: Mapping[str, Sequence[str]]) -> None:
        folder = _open_package()
        parts: dict[str, Any] = {
            name: importlib.import_module(f"g2pkk.{name}")
            for name in ("utils", "special", "regular", "english", "numerals")
        }
        self._parts = parts
        self._special = [getattr(parts["special"], name) for name in _SPECIAL]
        self._links: list[Callable[[str], str]] = [getattr(parts["regular"], f"link{n}") for n in range(1, 5)]
        self._table = [(re.compile(old), new) for old, new, _ in parts["utils"].parse_table()]
        self._tagger = MeCab()
        self._english = {word: [list(phonemes)] for word, phonemes in english.items()}
        lines = (line.split("#")[0].strip() for line in (folder / "idioms.txt").read_text("utf-8").splitlines())
        pairs = (line.split("===") for line in lines if "===" in line)
        self._idioms = [(re.compile(old), new) for old, new in pairs]

    def spoken(self, text: str) -> str:
        """Returns the text in Hangul as it sounds."""
        for old, new in self._idioms:
            text = old.sub(new, text)
        text = self._parts["english"].convert_eng(text, self._english)
        text = self._parts["utils"].annotate(text, self._tagger)
        sounds = h2j(self._parts["numerals"].convert_num(text))
        for rule in self._special:
            sounds = rule(sounds)
        sounds = re.sub("/[PJEB]", "", sounds)
        for pattern, after in self._table:
            sounds = pattern.sub(after, sounds)
        for link in self._links:
            sounds = link(sounds)
        composed: str = self._parts["utils"].compose(sounds)
        return composed


class Korean:
    """Reads Korean.

    Args:
        rules: Pronounces words.
        latin: Latin words and letters in Hangul.
        signs: Likewise, of signs.
    """

    shapes: Mapping[str, tuple[str, ...]] = JAMO
    needs: AbstractSet[str] = frozenset(JAMO)
    audition = "바람과 햇님이 서로 힘이 더 세다고 다투고 있을 때, 한 나그네가 따뜻한 외투를 입고 걸어왔습니다."
    """The beginning of Aesop's fable, with which the International Phonetic Association shows languages."""

    def __init__(self, rules: Rules, latin: Words, signs: Words) -> None:
        self._rules, self._latin, self._signs = rules, latin, signs

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""
        return cut(written_out(text), CHARACTERS_MAX)

    def read(
        self, sentence: str, pieces: Callable[[str], Sequence[str]], known: AbstractSet[str]
    ) -> tuple[str, Phones]:
        """Returns the sentence as BERT is given it, and its symbols."""
        text = normal(sentence, self._latin, self._signs)
        return text, word_pieces.phones(word_pieces.with_pauses(pieces(text)), self.say, known, TONE)

    def say(self, token: str) -> Iterable[str]:
        """Returns the symbols of a word or mark."""
        if token in MARKS or token == PADDING:
            return [token]
        return list(hangul_to_jamo(self._rules.spoken(normal(token, self._latin, self._signs))))


def create(models_dir: Path) -> Korean:
    """Opens the dictionaries.

    Raises:
        FileNotFoundError: `make models` has not brought one of them.
    """
    words: Any = {
        name: assigned(source(models_dir, "ko_dictionary.py"), name)
        for name in ("english_dictionary", "etc_dictionary")
    }
    english = {word.lower(): said for word, said in read_words(models_dir / "english" / DICTIONARY).items()}
    return Korean(Rules(english), words["english_dictionary"], words["etc_dictionary"])


def written_out(text: str) -> str:
    """Writes out what BERT would cut in two and signs that have names: upstream stops at them."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(\d)\.(\d)", r"\1 점 \2", text)
    return re.sub("\N{DEGREE CELSIUS}|°C?", "도", re.sub(r"(?<=\d)\s?%", "퍼센트", text))


def normal(text: str, latin: Words, signs: Words) -> str:
    """Returns the text as BERT is given it: no Chinese signs, some Latin words and letters in Hangul."""
    text = _HAN.sub("", text.strip())
    text = re.sub("|".join(map(re.escape, signs)), lambda found: signs[found[0]], text)
    return re.sub("[A-Za-z]+", lambda found: latin.get(found[0], found[0]), text).lower()


def _open_package() -> Path:
    """Makes the parts of `g2pkk` importable without its driver, which its `__init__` would run."""
    spec = PathFinder.find_spec("g2pkk")
    if spec is None or not spec.origin:
        raise ModuleNotFoundError("no package g2pkk", name="g2pkk")
    folder = Path(spec.origin).parent
    package = ModuleType("g2pkk")
    package.__path__ = [str(folder)]
    sys.modules.setdefault("g2pkk", package)
    return folder
