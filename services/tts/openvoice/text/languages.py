"""The languages of MeloTTS' checkpoints, and who reads their texts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from services.tts.openvoice.text.word_pieces import Phones
from services.tts.speech.sentences import Sentence


class Reader(Protocol):
    """Reads texts of one language."""

    shapes: Mapping[str, tuple[str, ...]]
    """The mouth shapes of its sounds."""
    needs: AbstractSet[str]
    """Symbols that a checkpoint of the language has."""
    audition: str
    """A text that holds its common sounds."""

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""

    def read(
        self, sentence: str, pieces: Callable[[str], Sequence[str]], known: AbstractSet[str]
    ) -> tuple[str, Phones]:
        """Returns the sentence as BERT is given it, and its symbols.

        Args:
            sentence: Of `cut`.
            pieces: Cuts a text into word pieces of BERT.
            known: The symbols of the checkpoint.
        """


@dataclass(frozen=True)
class Language:
    """A language that has a reader.

    Attributes:
        code: ISO 639-1.
        name: In English.
        speakers: How the names of its speakers begin.
        id: In every checkpoint.
        bert: Folder of its BERT, named as published.
        reader: The module that reads it.
    """

    code: str
    name: str
    speakers: tuple[str, ...]
    id: int
    bert: str
    reader: str


ENGLISH: Final = Language("en", "English", ("EN",), 2, "bert-base-uncased", "melo")
LANGUAGES: Final = (
    ENGLISH,
    Language("es", "Spanish", ("ES", "SP"), 5, "bert-base-spanish-wwm-uncased", "spanish"),
    Language("fr", "French", ("FR",), 6, "bert-base-french-europeana-cased", "french"),
    Language("ja", "Japanese", ("JP",), 1, "bert-base-japanese-v3", "japanese"),
    Language("ko", "Korean", ("KR",), 4, "bert-kor-base", "korean"),
    # Of Chinese with English words in it, which is what upstream speaks Chinese as.
    Language("zh", "Chinese", ("ZH",), 3, "bert-base-multilingual-uncased", "chinese"),
)


def of(speakers: Iterable[str]) -> Language | None:
    """Returns the language of a checkpoint's speakers, or None when it has no reader."""
    return next((each for name in speakers for each in LANGUAGES if name.startswith(each.speakers)), None)


def open_reader(language: Language, models_dir: Path) -> Reader:
    """Opens the dictionaries of a language.

    Args:
        language: Which.
        models_dir: What `make models` filled.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: Its packages are not installed; the message names the extra.
    """
    try:
        module = import_module(f"services.tts.openvoice.text.{language.reader}")
        reader: Reader = module.create(models_dir)
    except ModuleNotFoundError as error:
        extra = f"tts-openvoice-{language.code}"
        problem = f"{language.name} needs the package {error.name}, which is not installed: pip install 'e3rg[{extra}]'"
        raise ValueError(problem) from error
    return reader
