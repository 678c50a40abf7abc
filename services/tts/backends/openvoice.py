"""Speaks with OpenVoice: a base speaker with style, and a converter that gives it the identity's tone colour.

The base speaker is OpenVoice V1's (English, nine styles) or MeloTTS (five languages, no style); the converter is
V1's or V2's. The networks and the readers of text are in `services/tts/openvoice`; `docs/openvoice.md` says what to
download.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from torch import Tensor

from perception.voice import Floats, VoiceReader
from services.common.errors import InvalidRequest
from services.common.weights import digest_of
from services.tts import domain
from services.tts.domain import Delivery, Phoneme, Profile, Speech, VoiceReference, own
from services.tts.openvoice import colours, lips, manner
from services.tts.openvoice.colours import Colour
from services.tts.openvoice.converter import Converter, load_converter
from services.tts.openvoice.lines import Line
from services.tts.openvoice.manner import DEFAULT, Manner
from services.tts.openvoice.pieces import Piece, cut
from services.tts.openvoice.speakers import MeloSpeaker, Reading, Speaker, StyledSpeaker, language_of
from services.tts.openvoice.text.bert import files as bert_files
from services.tts.openvoice.text.languages import open_reader
from services.tts.openvoice.utterance import Utterance, factor_of
from services.tts.speech.likeness import listen
from services.tts.speech.loudness import LEVEL_DBFS, frame_levels, mean_level

OFFICIAL = ("config.json", "checkpoint.pth")
STRETCH_S = 0.25
"""Least length of a stretch of speech: shorter ones are more messages than use."""


class Settings(BaseSettings):
    """What the OpenVoice back-end can be told. Folders may be relative to `weights`."""

    model_config = SettingsConfigDict(env_prefix="E3RG_TTS_", frozen=True, hide_input_in_errors=True)

    weights: Path = Field(default=...)
    """Folder of the official checkpoints, as they unpack: `checkpoints`, `checkpoints_v2`."""
    base_speaker: Literal["openvoice-v1", "melo"] = "openvoice-v1"
    """Who speaks before the tone colour is changed: V1's speaker with nine styles, or MeloTTS with accents."""
    converter: Path | None = None
    """Folder of the converter; its version is found there. Unset: `checkpoints/converter` (V1) for V1's speaker,
    `checkpoints_v2/converter` for MeloTTS."""
    melo: Path = Path("MeloTTS-English")
    """Folder of MeloTTS: `config.json` and `checkpoint.pth`. Its language is what the voice speaks."""
    accent: str | None = None
    """MeloTTS: name of the speaker. Unset: EN-Default for English, else the only one."""
    bert: Path | None = None
    """MeloTTS: folder of its BERT. Unset: the published name of the language's ("bert-base-uncased")."""
    models_dir: Path = Path(".models")
    """MeloTTS: folder of the dictionaries, as `make models` fills it."""
    device: str = "cuda"
    """Where the networks run: "cuda", "cuda:1", "cpu"."""
    dtype: Literal["bfloat16", "float16", "float32"] = "float32"
    """What the networks compute in."""
    compile: bool = False
    """Compiles the vocoders, which do most of the work, when it starts: that takes minutes."""
    batch_max: int | None = Field(default=None, ge=1)
    """Pieces of text, after the first, that are spoken in one go. Unset: 4, and 1 on a CPU, where that is faster."""
    tau: float = Field(default=0.3, ge=0, le=1)
    """How much the converted sound varies around its mean; 0 is the dullest."""


@dataclass(frozen=True, eq=False)
class _Source:
    """The base speaker in one style: its tone colour, float32 (1, width), and how loud it is."""

    colour: Tensor
    level_dbfs: float


class OpenVoiceBackend:
    """Speaks with a base speaker and a converter on one thread; made by `create`.

    Args:
        speaker: The base speaker.
        converter: The converter.
        known: Official tone colours of the speaker for this converter, by style, float32 (1, width); for styles that
            are not there it is heard in what the speaker says.
        digest: SHA-256 (hex) of the weights.
        tau: How much the converter varies.
        batch_max: Pieces that are spoken in one go.
    """

    fitting = colours.FITTING

    def __init__(
        self,
        speaker: Speaker,
        converter: Converter,
        known: dict[str, Tensor],
        digest: str,
        tau: float,
        batch_max: int,
    ) -> None:
        factor_of(speaker, converter)
        self._speaker = speaker
        self._converter = converter
        self._tau = tau
        self._batch_max = batch_max
        self._reader = VoiceReader()
        self.model = f"{speaker.model}+converter-{converter.version}"
        # The accent is no file of its own, and how loud a voice is was measured with it.
        self.digest = hashlib.sha256(f"{digest} {self.model}".encode()).hexdigest()
        self.texts_max = 1 if batch_max == 1 else 1 + batch_max
        self.sample_rate_hz = converter.sample_rate_hz
        self.styles = speaker.styles
        self.languages: tuple[str, ...] = (speaker.language.code,)
        self._audition_readings = [piece.reading for piece in cut(speaker.audition, speaker)]
        self._sources = {style: self._audition(style, known.get(style)) for style in self.styles}

    def check(self, reference: VoiceReference) -> None:
        """Listens whether a recording has a tone colour.

        Raises:
            InvalidRequest: It is too short, silent or not speech.
        """
        listen(reference, self._reader)

    def prepare(self, references: Sequence[VoiceReference], profile: Profile) -> Colour:
        """Hears the tone colour of the recordings, on average, and how loud the default style is in it.

        Raises:
            InvalidRequest: A recording is too short, silent or not speech.
        """
        target = colours.hear(references, self._converter, self._reader)
        utterance = self._utterance(self._audition_readings, Manner())
        sound = torch.cat(utterance.whole(self._sources[DEFAULT].colour, target, self._tau))
        return Colour(self._converter.version, target[0].numpy(), self._level_dbfs(sound.cpu().numpy()))

    def pack(self, voice: domain.Voice) -> bytes:
        """Returns the tone colour as JSON."""
        return colours.pack(own(voice, Colour))

    def unpack(self, content: bytes) -> Colour:
        """Returns a packed tone colour.

        Raises:
            ValueError: These are no bytes of `pack`, or of another converter.
        """
        return colours.unpack(content, self._converter.version, self._converter.width)

    def speak(self, texts: Sequence[str], voice: domain.Voice, delivery: Delivery) -> Iterator[Speech]:
        """Speaks the texts. The first piece is heard while it is spoken; others are spoken `batch_max` at once.

        Raises:
            InvalidRequest: Nothing in a text has a sound. What stands before such a text is spoken.
            TypeError: The voice is another back-end's.
        """
        colour = own(voice, Colour)
        pieces: list[Piece] = []
        refusal = None
        for text in texts:
            try:
                pieces += cut(text, self._speaker)
            except InvalidRequest as found:
                refusal = found
                break
        if refusal and not pieces:
            raise refusal
        return self._speak(pieces, refusal, colour, manner.of(delivery))

    def warm_up(self) -> None:
        """Says a text alone and in a batch, so that the first caller does not wait for what is only done once."""
        own = self._sources[DEFAULT]
        voice = Colour(self._converter.version, own.colour[0].numpy(), own.level_dbfs)
        for _ in self.speak([self._speaker.audition] * 2, voice, Delivery(DEFAULT, 0.0)):
            pass

    def close(self) -> None:
        """Nothing to free: the networks go with the object."""

    def _utterance(self, readings: Sequence[Reading], way: Manner) -> Utterance:
        return Utterance(self._speaker, self._converter, readings, way)

    def _audition(self, style: str, known: Tensor | None) -> _Source:
        way = manner.of(Delivery(style, 1.0))
        sound = torch.cat(self._utterance(self._audition_readings, way).plain())
        colour = self._converter.embed(sound[None]).cpu() if known is None else known
        return _Source(colour, self._level_dbfs(sound.cpu().numpy()))

    def _speak(
        self, pieces: Sequence[Piece], refusal: InvalidRequest | None, colour: Colour, way: Manner
    ) -> Iterator[Speech]:
        said: list[NDArray[np.int16]] = []
        for group in self._groups(pieces):
            for samples, phonemes, ends_text in self._say(group, colour, way):
                said.append(samples)
                applied = {"rate": way.pace, "style_share": way.share}
                if ends_text:
                    applied |= self._measured(np.concatenate(said))
                    said = []
                yield Speech(samples, self.sample_rate_hz, phonemes, applied, ends_text)
        if refusal:
            raise refusal

    def _groups(self, pieces: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
        """The first alone, so that it is heard soon."""
        yield pieces[:1]
        for start in range(1, len(pieces), self._batch_max):
            yield pieces[start : start + self._batch_max]

    def _say(
        self, pieces: Sequence[Piece], colour: Colour, way: Manner
    ) -> Iterator[tuple[NDArray[np.int16], tuple[Phoneme, ...], bool]]:
        """Yields stretches of pieces that are spoken together, in order; the flag says that a text ends."""
        utterance = self._utterance([piece.reading for piece in pieces], way)
        plain, styled = self._sources[DEFAULT], self._sources[way.style]
        source = torch.lerp(plain.colour, styled.colour, way.share)
        louder_db = way.share * (styled.level_dbfs - plain.level_dbfs)
        gain_db = LEVEL_DBFS + way.level_db - louder_db - colour.level_dbfs
        lines = [self._line(piece, ends, gain_db, way) for piece, ends in zip(pieces, utterance.ends, strict=True)]
        current = 0
        for sounds in utterance.converted(source, torch.from_numpy(colour.embedding)[None], self._tau):
            for line, sound in zip(lines, sounds, strict=True):
                line.add(sound.numpy())
            while current < len(lines):
                line = lines[current]
                while stretch := line.take(round(STRETCH_S * self.sample_rate_hz)):
                    yield *stretch, line.is_done and pieces[current].ends_text
                if not line.is_done:
                    break
                current += 1

    def _line(self, piece: Piece, ends: Sequence[int], gain_db: float, way: Manner) -> Line:
        rate_hz = self.sample_rate_hz
        rest = round(lips.REST_S * rate_hz)
        sounds = lips.timeline(piece.reading.symbols, ends, self._speaker.shapes, rest)
        return Line(sounds, round(piece.pause_s * way.pause * rate_hz), gain_db, rate_hz)

    def _level_dbfs(self, samples: Floats) -> float:
        """Returns the level of whole frames of speech, pauses left out."""
        return mean_level(frame_levels(samples, self._converter.hop_samples))

    def _measured(self, samples: NDArray[np.int16]) -> dict[str, float]:
        """Hears what was said: its level, and its pitch where it has one."""
        heard = self._reader.read((samples / 32768).astype(np.float32), self.sample_rate_hz)
        found = {
            "level_dbfs": heard.level_dbfs,
            "pitch_hz": heard.pitch_hz,
            "pitch_range_semitones": heard.pitch_range_semitones,
        }
        return {name: value for name, value in found.items() if np.isfinite(value)}


def create() -> OpenVoiceBackend:
    """Loads the models, hears the base speaker in every style and says a sentence.

    Raises:
        FileNotFoundError: A file is missing; the message names it.
        ValueError: A file does not fit.
    """
    settings = Settings()
    root, device, dtype = settings.weights, settings.device, getattr(torch, settings.dtype)
    is_melo = settings.base_speaker == "melo"
    converter_folder = root / (settings.converter or ("checkpoints_v2" if is_melo else "checkpoints") + "/converter")
    files = [converter_folder / name for name in OFFICIAL]
    converter = load_converter(converter_folder, device, dtype)
    speaker: Speaker
    if is_melo:
        folder = root / settings.melo
        language = language_of(folder)
        bert, reader = root / (settings.bert or language.bert), open_reader(language, settings.models_dir)
        speaker = MeloSpeaker(folder, settings.accent, bert, language, reader, device, dtype)
        official = {DEFAULT: colours.of_accent(converter_folder, speaker.accent)} if converter.version == "v2" else {}
        files += bert_files(bert)
    else:
        folder = root / "checkpoints" / "base_speakers" / "EN"
        speaker = StyledSpeaker(folder, device, dtype)
        official = colours.of_styles(folder, speaker.styles) if converter.version == "v1" else {}
    files += [folder / name for name in OFFICIAL] + sorted(set(official.values()))
    if settings.compile:
        for vocoder in (speaker.network.dec, converter.network.dec):
            vocoder.compile(dynamic=True)
    known = {style: colours.read_file(path, converter.width) for style, path in official.items()}
    batch_max = settings.batch_max or (1 if device == "cpu" else 4)
    backend = OpenVoiceBackend(speaker, converter, known, digest_of(*files), settings.tau, batch_max)
    backend.warm_up()
    return backend
