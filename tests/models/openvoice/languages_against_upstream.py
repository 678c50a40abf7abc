"""Reads Spanish, French, Japanese, Korean and Chinese with MeloTTS' own front-ends and with ours, and compares.

    python -m tests.models.openvoice.languages_against_upstream --melo FOLDER LANGUAGE [--write-golden]

The folder is a checkout of MeloTTS, the language es, fr, ja, ko or zh. Wanted besides are the packages that MeloTTS
pins. Its BERTs are not: both sides are given the word pieces of made-up vocabularies, so what is compared is what is
read of the pieces, not how a published BERT cuts. French is compared with upstream's liaisons undone: upstream appends
them to its dictionary, for ever, so that what it says depends on what it said before. Of Japanese every row of three
katakana is compared besides.
"""

import argparse
import importlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import chain, product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from services.tts.openvoice.text.lexicon import DICTIONARY, read_words
from services.tts.openvoice.text.openvoice import Pronouncer
from services.tts.openvoice.text.word_pieces import Phones, spread
from tests.models.openvoice.made_up_texts import made_up
from tests.models.openvoice.words import MODELS, kana, tokenizer

GOLDEN = Path(__file__).with_name("golden")
Row = dict[str, Any]


def main() -> None:
    """Compares, prints how many texts differ, and stops with an error if one does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("language", choices=["es", "fr", "ja", "ko", "zh"])
    parser.add_argument("--melo", type=Path, required=True)
    parser.add_argument("--made-up", type=int, default=400, help="texts that are made up besides")
    parser.add_argument("--write-golden", action="store_true")
    asked = parser.parse_args()
    golden = GOLDEN / f"{asked.language}.json"
    written = [row["text"] for row in json.loads(golden.read_text("utf-8"))]
    texts = [*written, *made_up(asked.language, asked.made_up)]
    readers = {"es": _latin, "fr": _latin, "ja": _japanese, "ko": _korean, "zh": _chinese}
    upstream, ours = readers[asked.language](asked, texts)
    rows = [_row(text, upstream) for text in texts]
    wrong = [row["text"] for row in rows if ours(row) != _said(row)]
    symbols = set(importlib.import_module("melo.text.symbols").symbols)
    lacking = {symbol for row in rows for symbol in row["phones"]} - symbols
    of_written = len(set(wrong) & set(written))
    sys.stdout.write(f"{len(written)} written, {len(texts) - len(written)} made up; {of_written} and ")
    sys.stdout.write(f"{len(wrong) - of_written} differ; upstream lacks {lacking or 'no symbol'}\n")
    sys.stdout.writelines(f"  {text}\n" for text in wrong[:20])
    if asked.write_golden:
        lines = (json.dumps(row, ensure_ascii=False) for row in rows[: len(written)])
        golden.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    raise SystemExit(bool(wrong))


def said_by(phones: Phones, first_tone: int) -> tuple[list[str], list[int], list[int]]:
    """Returns a reading as upstream notes it: tones count from 0 in every language."""
    return list(phones.symbols), [tone - first_tone for tone in phones.tones], list(phones.counts)


def _said(row: Row) -> tuple[str, tuple[list[str], list[int], list[int]]]:
    return row["normal"], (row["phones"], row["tones"], row["counts"])


def _row(text: str, upstream: Any) -> Row:
    normal = upstream.text_normalize(text)
    phones, tones, counts = upstream.g2p(normal)
    pieces = upstream.tokenizer.tokenize(normal)
    return {"text": text, "normal": normal, "pieces": pieces, "phones": phones, "tones": tones, "counts": counts}


def _open(melo_folder: Path, cut: Callable[[str], list[str]]) -> None:
    """Makes upstream importable, with a tokenizer that cuts as asked."""
    transformers: Any = importlib.import_module("transformers")
    transformers.AutoTokenizer.from_pretrained = lambda *_, **__: SimpleNamespace(tokenize=cut)
    package = ModuleType("melo")
    package.__path__ = [str(melo_folder.resolve() / "melo")]
    sys.modules["melo"] = package


def _pieces(texts: Sequence[str], is_lower: bool) -> Callable[[str], list[str]]:
    """Returns a WordPiece of letters and frequent words, half of which it cuts."""
    whole = sorted({word for text in texts for word in re.findall(r"\w+", text.lower() if is_lower else text)})
    known: dict[str, int] = dict.fromkeys(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), 0)
    for place, word in enumerate(whole):
        known |= dict.fromkeys(
            [word[:3], "##" + word[3:5], "##" + word[-2:]] if len(word) > 4 and place % 2 else [word], 0
        )
    for letter in {letter for text in [*texts, "-,."] for letter in text + text.lower()}:
        known |= dict.fromkeys([letter, f"##{letter}"], 0)
    tokenizers: Any = importlib.import_module("tokenizers")
    ids = {piece: place for place, piece in enumerate(known)}
    model = tokenizers.BertWordPieceTokenizer(ids, lowercase=is_lower, strip_accents=False)
    return lambda text: list(model.encode(text, add_special_tokens=False).tokens)


def _latin(asked: argparse.Namespace, texts: Sequence[str]) -> tuple[Any, Callable[[Row], Any]]:
    name = {"es": "spanish", "fr": "french"}[asked.language]
    ours: Any = importlib.import_module(f"services.tts.openvoice.text.{name}")
    reader = ours.create(MODELS)
    _open(asked.melo, _pieces(texts, asked.language == "es"))
    upstream: Any = importlib.import_module(f"melo.text.{name}")
    gruut, phonemize = importlib.import_module("gruut"), importlib.import_module("gruut.phonemize")
    look_up = phonemize.SqlitePhonemizer.__call__
    phonemize.SqlitePhonemizer.__call__ = lambda *given, **named: list(look_up(*given, **named) or ()) or None
    if asked.language == "fr":
        module: Any = importlib.import_module("melo.text.fr_phonemizer.fr_to_ipa")
        read = module.fr2ipa

        def fresh(word: str) -> str:
            for settings in (
                gruut._LOCAL.processors["espeak"].settings.values() if hasattr(gruut._LOCAL, "processors") else ()
            ):
                if settings.lookup_phonemes:
                    settings.lookup_phonemes.phonemizer.lexicon.clear()
            said: str = read(word)
            return said

        module.fr2ipa = fresh

    def read_row(row: Row) -> Any:
        text = row["text"]
        normal = ours.normal(text) if asked.language == "es" else ours.normal(text, reader._abbreviations)
        known = set(importlib.import_module("melo.text.symbols").symbols) | {"UNK"}
        return normal, said_by(ours.word_pieces.phones(row["pieces"], reader.say, known, ours.TONE), ours.TONE)

    return upstream, read_row


def _japanese(asked: argparse.Namespace, texts: Sequence[str]) -> tuple[Any, Callable[[Row], Any]]:
    japanese: Any = importlib.import_module("services.tts.openvoice.text.japanese")
    reader = japanese.create(MODELS)
    with tempfile.TemporaryDirectory() as folder:
        words = kana(Path(folder)).word_tokenizer.tokenize("".join(map(reader.normal, texts)))
        # Every other word is known whole; of the others a beginning of two kana.
        whole = sorted(set(words))
        words = kana(Path(folder), [*whole[::2], *(word[:2] for word in whole[1::2])])
    _open(asked.melo, words.tokenize)
    upstream = importlib.import_module("melo.text.japanese")
    known = set(importlib.import_module("melo.text.symbols").symbols)
    signs = [chr(code) for code in range(ord("ァ"), ord("ー") + 1)]
    for together in map("".join, chain.from_iterable(product(signs, repeat=length) for length in (1, 2, 3))):
        if upstream.kata2phoneme(together) != japanese.sounds(together):
            raise SystemExit(f"{together} has other sounds")

    def read_row(row: Row) -> Any:
        phones = japanese.word_pieces.phones(
            japanese.word_pieces.with_pauses(row["pieces"]), japanese.sounds, known, japanese.TONE
        )
        return reader.normal(row["text"]), said_by(phones, japanese.TONE)

    return upstream, read_row


def _korean(asked: argparse.Namespace, texts: Sequence[str]) -> tuple[Any, Callable[[Row], Any]]:
    english = {word.lower(): [list(said)] for word, said in read_words(MODELS / "english" / DICTIONARY).items()}
    nltk: Any = importlib.import_module("nltk")
    corpus: Any = importlib.import_module("nltk.corpus")
    nltk.data.find = lambda *_, **__: None
    corpus.cmudict = SimpleNamespace(dict=lambda: english)
    importlib.import_module("g2pkk")  # whole, as upstream wants it; ours would leave its driver out
    _open(asked.melo, _in_two)
    upstream = importlib.import_module("melo.text.korean")
    korean: Any = importlib.import_module("services.tts.openvoice.text.korean")
    reader = korean.create(MODELS)
    known = set(importlib.import_module("melo.text.symbols").symbols)

    def read_row(row: Row) -> Any:
        normal, phones = reader.read(row["text"], lambda _: row["pieces"], known)
        return normal, said_by(phones, korean.TONE)

    return upstream, read_row


def _in_two(text: str) -> list[str]:
    """Cuts long words behind their second character; some signs are unknown."""
    pieces = []
    for word in re.findall(r"\w+|[^\w\s]", text):
        pieces += ["[UNK]"] if word in "※☆" else [word] if len(word) < 4 else [word[:2], f"##{word[2:]}"]
    return pieces


def _chinese(asked: argparse.Namespace, texts: Sequence[str]) -> tuple[Any, Callable[[Row], Any]]:
    # The English words are read by upstream's own reader; see text_against_upstream for what it is given.
    nltk: Any = importlib.import_module("nltk")
    corpus: Any = importlib.import_module("nltk.corpus")
    pronouncer = Pronouncer()
    dictionary = {word: [one.upper().split() for one in options] for word, options in pronouncer.words.items()}
    nltk.download = lambda *_: None
    nltk.pos_tag = lambda words: [(word, "NN") for word in words]
    corpus.cmudict = SimpleNamespace(dict=lambda: dictionary)
    japanese: Any = ModuleType("melo.text.japanese")
    japanese.distribute_phone = spread
    sys.modules["melo.text.japanese"] = japanese
    _open(asked.melo, tokenizer().tokenize)
    upstream = importlib.import_module("melo.text.chinese_mix")
    symbols = frozenset(importlib.import_module("melo.text.symbols").symbols)
    chinese: Any = importlib.import_module("services.tts.openvoice.text.chinese")
    reader = chinese.create(MODELS)

    def read_row(row: Row) -> Any:
        normal = chinese.normal(row["text"])
        return normal, said_by(reader.phones(normal, upstream.tokenizer.tokenize, symbols), 0)

    return upstream, read_row


if __name__ == "__main__":
    main()
