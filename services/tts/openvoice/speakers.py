"""The base speakers as the back-end asks them: sentences in, frames of speech out."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import torch
from torch import Tensor

from services.tts.openvoice import lips
from services.tts.openvoice.config import read_config, setting
from services.tts.openvoice.manner import DEFAULT, STYLES, Manner
from services.tts.openvoice.melo import Melo, load_melo
from services.tts.openvoice.noise import Gaussian
from services.tts.openvoice.spoken import Spoken
from services.tts.openvoice.synthesis import Synthesis
from services.tts.openvoice.synthesizer import load_base_speaker
from services.tts.openvoice.text import languages
from services.tts.openvoice.text import openvoice as openvoice_text
from services.tts.openvoice.text.bert import WordFeatures
from services.tts.openvoice.text.languages import ENGLISH, LANGUAGES, Language, Reader
from services.tts.openvoice.text.melo import English
from services.tts.openvoice.text.word_pieces import PADDING
from services.tts.speech import sentences
from services.tts.speech.sentences import Sentence

BLANK: Final = 0
"""The id between all symbols, and before the first and behind the last (`add_blank`)."""
SDP_RATIO: Final = 0.2
"""Share of drawn durations, as upstream speaks."""
ACCENT: Final = "EN-Default"
"""Of English, when nothing is asked for."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Reading:
    """A piece of text as a speaker reads it.

    Attributes:
        symbols: One for each id.
        ids: Blanks included.
        tones: As many; empty where the speaker knows none.
        text: What the word features are taken of.
        counts: Symbols per word piece; empty where there are no word features.
    """

    symbols: tuple[str, ...]
    ids: tuple[int, ...]
    tones: tuple[int, ...] = ()
    text: str = ""
    counts: tuple[int, ...] = ()

    @property
    def seed(self) -> int:
        """The same for the same symbols, whatever is spoken before or beside them."""
        return zlib.crc32(repr(self.ids).encode())


class Speaker(Protocol):
    """A base speaker."""

    model: str
    language: Language
    audition: str
    styles: tuple[str, ...]
    network: Synthesis
    shapes: Mapping[str, tuple[str, ...]]

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""

    def read(self, sentence: str) -> list[Reading]:
        """Returns the sentence in pieces that are spoken at once; those without a sound are left out."""

    def utter(self, readings: Sequence[Reading], manner: Manner) -> Spoken:
        """Speaks the pieces, up to the frames."""


class StyledSpeaker:
    """OpenVoice V1's English speaker with its styles.

    Args:
        folder: The official `base_speakers/EN`.
        device: Where it runs.
        dtype: What it computes in.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: It is no such speaker; the message says why.
    """

    model = "openvoice-v1-en"
    language = ENGLISH
    audition = English.audition
    shapes = lips.IPA

    def __init__(self, folder: Path, device: str, dtype: torch.dtype) -> None:
        self.network = network = load_base_speaker(folder, device, dtype)
        missing = [style for style in STYLES if style not in network.speakers]
        if missing:
            raise ValueError(f"{folder / 'config.json'} has no speakers {', '.join(missing)}: it is not V1's English")
        self.styles = STYLES
        self._ids = {symbol: place for place, symbol in enumerate(network.symbols)}
        self._pronouncer = openvoice_text.Pronouncer()

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""
        return sentences.split(sentences.clean(text))

    def read(self, sentence: str) -> list[Reading]:
        """Returns the sentence in pieces that are spoken at once; those without a sound are left out."""
        readings = []
        for piece in openvoice_text.pieces(sentence):
            said = openvoice_text.symbols(piece, self._pronouncer)
            symbols = _between([symbol for symbol in said if symbol in self._ids], self.network.symbols[BLANK])
            if any(symbol in self.shapes for symbol in symbols):
                readings.append(Reading(tuple(symbols), tuple(self._ids[symbol] for symbol in symbols)))
        return readings

    def utter(self, readings: Sequence[Reading], manner: Manner) -> Spoken:
        """Speaks the pieces, up to the frames; a share of a style is that share of its speaker."""
        rows = self.network.emb_g.weight
        plain, styled = (rows[self.network.speakers[name]] for name in (DEFAULT, manner.style))
        mixed = torch.lerp(plain.float(), styled.float(), manner.share)
        return self.network.infer(
            _padded([reading.ids for reading in readings]),
            torch.tensor([len(reading.ids) for reading in readings]),
            mixed[None].expand(len(readings), -1),
            noise_of(readings),
            noise_scale=0.667,
            noise_scale_w=0.6,
            length_scale=1 / manner.pace,
            sdp_ratio=SDP_RATIO,
        )


class MeloSpeaker:
    """MeloTTS in one language, with one of its accents.

    Args:
        folder: An official folder.
        accent: Name of a speaker ("EN-US"); None for English's default or the only one.
        bert: The folder of its language's BERT.
        language: Of the folder, as `language_of` finds it.
        reader: Of that language.
        device: Where it runs.
        dtype: What it computes in.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The folder has no such accent, or lacks symbols of its language.
    """

    styles: tuple[str, ...] = (DEFAULT,)

    def __init__(
        self,
        folder: Path,
        accent: str | None,
        bert: Path,
        language: Language,
        reader: Reader,
        device: str,
        dtype: torch.dtype,
    ) -> None:
        self.network: Melo = load_melo(folder, device, dtype)
        accents = [name for name in self.network.speakers if name.startswith(language.speakers)]
        self.accent = accent or (ACCENT if ACCENT in accents else accents[0])
        if self.accent not in accents:
            raise ValueError(f"{folder} has no accent {self.accent!r}; it has: {', '.join(accents)}")
        self.model = f"melotts-{self.accent.lower()}"
        self.language, self.shapes, self.audition = language, reader.shapes, reader.audition
        self._speaker = self.network.speakers[self.accent]
        self._ids = {symbol: place for place, symbol in enumerate(self.network.symbols)}
        missing = sorted({*reader.needs, PADDING} - self._ids.keys())
        if missing:
            problem = f"has no symbols {' '.join(missing)}: it is not MeloTTS' {language.name}"
            raise ValueError(f"{folder / 'config.json'} {problem}")
        self._reader = reader
        self._reads_words = not self.network.config["data"].get("disable_bert", False)
        self._bert = WordFeatures(bert, device, dtype)

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""
        return self._reader.cut(text)

    def read(self, sentence: str) -> list[Reading]:
        """Returns the sentence as one piece, or none if it has no sound."""
        text, phones = self._reader.read(sentence, self._bert.pieces, self._ids.keys())
        if not any(symbol in self.shapes for symbol in phones.symbols):
            return []
        first, *others = phones.counts
        return [
            Reading(
                tuple(_between(phones.symbols, self.network.symbols[BLANK])),
                tuple(_between([self._ids[symbol] for symbol in phones.symbols], BLANK)),
                tuple(_between(phones.tones, 0)),
                text,
                # A blank belongs to the word before it; the very first to the mark of the beginning.
                (2 * first + 1, *(2 * count for count in others)),
            )
        ]

    def utter(self, readings: Sequence[Reading], manner: Manner) -> Spoken:
        """Speaks the pieces, up to the frames. It has no styles: only the pace of the manner is heard."""
        ids = _padded([reading.ids for reading in readings])
        languages = torch.zeros_like(ids)
        languages[:, 1::2] = self.language.id
        features = None
        if self._reads_words:
            texts, counts = [reading.text for reading in readings], [reading.counts for reading in readings]
            features = self._bert.of(texts, counts, ids.shape[1])
        return self.network.infer(
            ids,
            _padded([reading.tones for reading in readings]),
            languages,
            torch.tensor([len(reading.ids) for reading in readings]),
            torch.full((len(readings),), self._speaker),
            noise_of(readings),
            bert=None,
            ja_bert=features,
            noise_scale=0.6,
            noise_scale_w=0.8,
            length_scale=1 / manner.pace,
            sdp_ratio=SDP_RATIO,
        )


def language_of(folder: Path) -> Language:
    """Returns the language of a folder of MeloTTS.

    Raises:
        FileNotFoundError: It has no `config.json`.
        ValueError: Nobody reads its language.
    """
    names = setting(read_config(folder), "data", "spk2id")
    found = languages.of(names)
    if not found:
        known = ", ".join(language.name for language in LANGUAGES)
        raise ValueError(f"{folder} speaks {', '.join(names)}, which has no reader of text here; there are: {known}")
    return found


def noise_of(readings: Sequence[Reading], salt: int = 0) -> Gaussian:
    """Returns noise that depends on each piece alone."""
    return Gaussian([torch.Generator().manual_seed(reading.seed + salt) for reading in readings])


def _between(values: Sequence[Value], blank: Value) -> list[Value]:
    """Puts a blank between all values and at both ends."""
    return [blank, *(each for value in values for each in (value, blank))]


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[BLANK] * (longest - len(row))] for row in rows])
