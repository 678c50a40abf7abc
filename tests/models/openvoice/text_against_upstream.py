"""Reads texts with upstream's own front-ends and with ours, and compares.

    python -m tests.models.openvoice.text_against_upstream --openvoice FOLDER --melo FOLDER [--write-golden]

The folders are checkouts of OpenVoice and MeloTTS. Needed besides: nltk, distance, g2p_en, pypinyin, cn2an and jieba,
which upstream's modules import. The data of NLTK are not: upstream's word reader asks them for what CMUdict 0.6 lacks,
and is given CMUdict 0.7b instead; every such word counts as a noun. The words of BERT are those of MiniLM (`make
models`), which are the same.
"""

import argparse
import ast
import contextlib
import importlib
import io
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from services.tts.openvoice.text import melo, openvoice
from services.tts.openvoice.text.lexicon import Lexicon
from services.tts.openvoice.text.openvoice import Pronouncer
from tests.models.openvoice.words import MODELS, tokenizer

GOLDEN = Path(__file__).with_name("golden") / "text.json"
SENTENCES = (
    "I am so sorry to hear about your dog.",
    "That is wonderful news! Congratulations, you really earned it.",
    "Dr. Smith lives at 221 Baker St. and pays $12 a month.",
    "In 1984 she was the 3rd of 12 children; her brother, 7, wasn't born until 2005.",
    "It's 10:30 pm, and outside it is -5 degrees. Can you believe it?",
    "She sells seashells by the seashore, and the shells she sells are surely seashells, so I'm sure.",
    '"Stop!" he said, (quietly) and left - without his well-known hat.',
    "You’re doing great — keep going... Mr. O'Neill, Esq.!",  # noqa: RUF001 - a typographic apostrophe
    "Zyxoprane helped the Qwertzians in Vlorbistan.",
    "Yes.",
)
ODD = [
    "GPT4o",
    "naïve",
    "café",
    "$12",
    "1984",
    "'tis",
    "(well)",
    "“no”",
    "—",
    "...",
    "iPhone",
    "U.S.",
    "12:30pm",
    "A/B",
]
MADE_UP = 3000


def main() -> None:
    """Compares, prints how many texts differ, and stops with an error if one does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--openvoice", type=Path, required=True)
    parser.add_argument("--melo", type=Path, required=True)
    parser.add_argument("--write-golden", action="store_true")
    asked = parser.parse_args()
    pronouncer = Pronouncer()
    lexicon = Lexicon(MODELS / "english", pronouncer)
    texts = [*SENTENCES, *_made_up(pronouncer)]
    upstream = {
        "openvoice": list(_openvoice(asked.openvoice.resolve(), texts)),
        "melo": list(_melo(asked.melo.resolve(), texts, pronouncer)),
    }
    symbols = upstream["melo"][0]["symbols"]
    wrong = 0
    for text, old, new in zip(texts, *upstream.values(), strict=True):
        pieces = openvoice.pieces(text)
        said = ["".join(s for s in openvoice.symbols(piece, pronouncer) if s in old["symbols"]) for piece in pieces]
        # Upstream cuts "1,250" and "12.5" in two, which is not kept.
        in_numbers = re.search(r"[0-9][,.][0-9]", text) is not None
        wrong += not in_numbers and (pieces, said) != (old["pieces"], old["said"])
        if new["phones"]:
            read = melo.phones(new["word_pieces"], frozenset(symbols), lexicon)
            ours = (melo.normal(text), list(read.symbols), list(read.tones), list(read.counts))
            wrong += ours != (new["normal"], new["phones"], new["tones"], new["counts"])
    sys.stdout.write(f"{len(texts)} texts, {2 * len(texts)} readings: {wrong} differ\n")
    if asked.write_golden:
        count = len(SENTENCES)
        for rows in upstream.values():
            for row in rows[:count]:
                row.pop("symbols", None)
        content = {
            "melo_symbols": symbols,
            "sentences": [
                {"text": text, "openvoice": old, "melo": new}
                for text, old, new in zip(texts[:count], *(rows[:count] for rows in upstream.values()), strict=True)
            ],
        }
        GOLDEN.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if wrong:
        raise SystemExit(1)


def _made_up(pronouncer: Pronouncer) -> Iterator[str]:
    chance = random.Random(2)
    # Upstream asks the tagger, which is not here, whether one inebriates an inebriate.
    words = sorted(pronouncer.words.keys() - {"inebriate", "inebriates"})
    letters = "abcdefghijklmnopqrstuvwxyz"
    for _ in range(MADE_UP):
        text = []
        for _ in range(chance.randint(1, 40)):
            new = "".join(chance.choices(letters, k=chance.randint(2, 12)))
            word = chance.choices([chance.choice(words), chance.choice(ODD), new], [90, 7, 3])[0]
            text.append(word + chance.choice([*[""] * 8, *",.!?;:"]))
        yield " ".join(text)


def _openvoice(folder: Path, texts: list[str]) -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(folder))
    upstream = importlib.import_module("openvoice.text")
    utils = importlib.import_module("openvoice.utils")
    symbols = importlib.import_module("openvoice.text.symbols").symbols
    for text in texts:
        pieces = utils.split_sentence(text, language_str="EN")
        said = []
        for piece in pieces:
            spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", piece)
            with contextlib.redirect_stdout(io.StringIO()):
                ids = upstream.text_to_sequence(f"[EN]{spaced}[EN]", symbols, ["cjke_cleaners2"])
            said.append("".join(symbols[place] for place in ids))
        yield {"symbols": "".join(symbols), "pieces": pieces, "said": said}


def _melo(folder: Path, texts: list[str], pronouncer: Pronouncer) -> Iterator[dict[str, Any]]:
    nltk: Any = importlib.import_module("nltk")
    corpus: Any = importlib.import_module("nltk.corpus")
    dictionary = {word: [one.upper().split() for one in options] for word, options in pronouncer.words.items()}
    nltk.download = lambda *_: None
    nltk.pos_tag = lambda words: [(word, "NN") for word in words]
    corpus.cmudict = SimpleNamespace(dict=lambda: dictionary)
    package = ModuleType("melo")
    package.__path__ = [str(folder / "melo")]
    # Of the Japanese reader, which English imports, only the function that English uses.
    source = ast.parse((folder / "melo" / "text" / "japanese.py").read_text("utf-8"))
    wanted: list[ast.stmt] = [
        node for node in source.body if isinstance(node, ast.FunctionDef) and node.name == "distribute_phone"
    ]
    japanese = ModuleType("melo.text.japanese")
    exec(compile(ast.Module(wanted, []), "japanese.py", "exec"), japanese.__dict__)
    sys.modules |= {"melo": package, "melo.text.japanese": japanese}
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        tokenizer().save_pretrained(Path(place) / "bert-base-uncased")
        Path(place, "bert-base-uncased", "config.json").write_text('{"model_type": "bert"}')
        os.environ["HF_HUB_OFFLINE"] = "1"
        reader = importlib.import_module("melo.text")
        english = importlib.import_module("melo.text.english")
    for text in texts:
        normal = english.text_normalize(re.sub(r"([a-z])([A-Z])", r"\1 \2", text))
        word_pieces = english.tokenizer.tokenize(normal)
        phones, tones, counts = english.g2p(normal)
        _, tones, _ = reader.cleaned_text_to_sequence(phones, tones, "EN")
        yield {
            "symbols": reader.symbols,
            "normal": normal,
            "word_pieces": word_pieces,
            "phones": phones,
            "tones": tones,
            "counts": counts,
        }


if __name__ == "__main__":
    main()
