# ruff: noqa: RUF001 - Chinese signs are meant
"""Turns Chinese, with English words in it, into the symbols of MeloTTS: initials, finals and tones.

Words are cut by jieba and read by pypinyin; then their tones change as they do in speech (`tones`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

import cn2an
import jieba
import jieba.posseg
from pypinyin import Style, lazy_pinyin

from services.tts.openvoice.lips import ARPABET
from services.tts.openvoice.shapes import PINYIN
from services.tts.openvoice.text import melo, tones
from services.tts.openvoice.text.cutting import cut
from services.tts.openvoice.text.lexicon import Lexicon
from services.tts.openvoice.text.openvoice import Pronouncer
from services.tts.openvoice.text.tables import assigned, source
from services.tts.openvoice.text.tones import Neutral
from services.tts.openvoice.text.word_pieces import PADDING, Phones
from services.tts.speech.sentences import Sentence

CHARACTERS_MAX: Final = 60
"""About 14 s of speech."""
MARKS: Final = "!?…,.'-"
_COMMAS, _QUOTES, _DASHES = "：；，·、", "“”‘’（）()《》【】[]「」", "—～~"
_TABLE: Final = str.maketrans(
    {
        **dict.fromkeys(_COMMAS, ","),
        **dict.fromkeys("。\n$", "."),
        "！": "!",
        "？": "?",
        **dict.fromkeys(_QUOTES, "'"),
        **dict.fromkeys(_DASHES, "-"),
        "嗯": "恩",
        "呣": "母",
    }
)
_NUMBER: Final = re.compile(r"\d+(?:\.?\d+)?")
_LATIN: Final = re.compile(r"([a-zA-Z\s]+)")
_INITIAL: Final = re.compile("zh|ch|sh|[bpmfdtnlgkhjqxrzcsyw]")
_SHORT: Final = {"uei": "ui", "iou": "iu", "uen": "un"}
_ALONE: Final = {"ing": "ying", "i": "yi", "in": "yin", "u": "wu"}
_LEADS: Final = {"v": "yu", "e": "e", "i": "y", "u": "w"}

Said = tuple[Sequence[str], Sequence[int], Sequence[int]]
"""Symbols, tones, and how many each character or word piece has."""


class Chinese:
    """Reads Chinese with English words in it.

    Args:
        neutral: Words with a syllable without tone.
        lexicon: Pronounces the English words.
    """

    shapes: Mapping[str, tuple[str, ...]] = {**ARPABET, **PINYIN}
    needs: AbstractSet[str] = frozenset([*ARPABET, *PINYIN, melo.UNKNOWN])
    audition = "有一回，北风跟太阳正在那儿争论谁的本领大。"
    """The beginning of Aesop's fable, with which the International Phonetic Association shows languages."""

    def __init__(self, neutral: Neutral, lexicon: Lexicon) -> None:
        self._neutral, self._lexicon = neutral, lexicon

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""
        return cut(text, CHARACTERS_MAX)

    def read(
        self, sentence: str, pieces: Callable[[str], Sequence[str]], known: AbstractSet[str]
    ) -> tuple[str, Phones]:
        """Returns the sentence as BERT is given it, and its symbols."""
        text = normal(amounts(re.sub(r"([a-z])([A-Z])", r"\1 \2", sentence)))
        return text, self.phones(text, pieces, known)

    def phones(self, text: str, pieces: Callable[[str], Sequence[str]], known: AbstractSet[str]) -> Phones:
        """Pronounces normal text: symbols, tones, symbols per character, or per word piece of what is English.

        Args:
            text: Normal text.
            pieces: Cuts English words into word pieces of BERT.
            known: The symbols of the checkpoint; a syllable or sign that it lacks is passed over.
        """
        said: list[Said] = []
        for part in re.split(rf"(?<=[{MARKS}])\s*", text):
            for stretch in filter(None, _LATIN.split(part)):
                if _LATIN.match(stretch):
                    read = melo.phones(pieces(stretch), known, self._lexicon)
                    said.append((read.symbols[1:-1], read.tones[1:-1], read.counts[1:-1]))
                else:
                    said += _chinese(stretch, self._neutral, known)
        symbols = [symbol for stretch, _, _ in said for symbol in stretch]
        rising = [tone for _, stretch, _ in said for tone in stretch]
        counts = [count for _, _, stretch in said for count in stretch]
        return Phones((PADDING, *symbols, PADDING), (0, *rising, 0), (1, *counts, 1))


def create(models_dir: Path) -> Chinese:
    """Opens the dictionaries.

    Raises:
        FileNotFoundError: `make models` has not brought one of them.
    """
    _open_jieba()
    words: Any = {
        name: assigned(source(models_dir, "tone_sandhi.py"), name)
        for name in ("must_neural_tone_words", "must_not_neural_tone_words")
    }
    neutral = Neutral(frozenset(words["must_neural_tone_words"]), frozenset(words["must_not_neural_tone_words"]))
    return Chinese(neutral, Lexicon(models_dir / "english", Pronouncer()))


def amounts(text: str) -> str:
    """Writes out what upstream loses or misreads: percents, degrees, yuan, grouped digits, years; and two signs."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(\d+(?:\.\d+)?)\s?%", r"百分之\1", text)
    text = (
        re.sub(r"[¥￥]\s?(\d+(?:\.\d+)?)", r"\1元", text)
        .replace("℃", "摄氏度")
        .replace("°C", "摄氏度")
        .replace("°", "度")
    )
    text = re.sub(r"(?<!\d)(\d{4})(?=年)", lambda found: "".join(cn2an.an2cn(digit) for digit in found[1]), text)
    return text.translate(str.maketrans(";:", "；："))


def normal(text: str) -> str:
    """Returns the text as BERT and the dictionary are given it: digits as characters, few signs, Latin letters."""
    for digits in _NUMBER.findall(text):
        text = text.replace(digits, cn2an.an2cn(digits), 1)
    text = text.replace("...", "…").translate(_TABLE)
    text = re.sub(r"[^\u4e00-\u9fa5_a-zA-Z\s!?…,.'\-]+", "", text)
    return re.sub(r"\s+", " ", text)


def symbols_of(syllable: str) -> tuple[str, str]:
    """Returns initial and final of a syllable of pinyin, as MeloTTS writes them: "zhi" is "zh" and "ir".

    After j, q, x and y a u is a v; the i after hissing sounds has two symbols of its own; a syllable that begins with a
    vowel has that vowel, doubled, for an initial. So are all 429 syllables of upstream's table.
    """
    initial = _INITIAL.match(syllable)
    if not initial:
        return syllable[0].upper() * 2, syllable
    lead, final = initial[0], syllable[initial.end() :]
    if lead in "jqxy" and final.startswith("u"):
        final = f"v{final[1:]}"
    elif final == "i" and lead in ("z", "c", "s"):
        final = "i0"
    elif final == "i" and lead in ("zh", "ch", "sh", "r"):
        final = "ir"
    return lead, ({"e": "E", "an": "En"}.get(final, final) if lead == "y" else final)


def _chinese(text: str, neutral: Neutral, known: AbstractSet[str]) -> list[Said]:
    said: list[Said] = []
    for word, kind in tones.merged([(pair.word, pair.flag) for pair in jieba.posseg.cut(text)]):
        initials = lazy_pinyin(word, neutral_tone_with_five=True, style=Style.INITIALS)
        for initial, final in zip(initials, tones.spoken(word, kind, neutral), strict=False):
            symbols, tone = ((initial,), 0) if initial == final else _syllable(initial, final)
            heard = symbols if known >= set(symbols) else ()
            said.append((heard, [tone] * len(heard), [len(heard)]))
    return said


def _syllable(initial: str, final: str) -> tuple[tuple[str, ...], int]:
    """Returns the symbols and the tone of a syllable; none when it has no final."""
    bare = final[:-1]
    if not bare:
        return (), 0
    if initial:
        pinyin = initial + _SHORT.get(bare, bare)
    elif bare in _ALONE:
        pinyin = _ALONE[bare]
    else:
        pinyin = _LEADS.get(bare[0], bare[0]) + bare[1:]
    return symbols_of(pinyin), int(final[-1])


def _open_jieba() -> None:
    """Reads jieba's dictionary; left to itself, jieba trusts a copy of it in a folder that everybody can write to."""
    if not jieba.dt.initialized:
        jieba.dt.FREQ, jieba.dt.total = jieba.dt.gen_pfdict(jieba.dt.get_dict_file())
        jieba.dt.initialized = True
