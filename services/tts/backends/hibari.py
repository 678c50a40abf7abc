"""Speaks English with hibari (6 M parameters, a distillation of Kokoro's `af_heart`), bent to identity and emotion.

The model has one voice and one mood. It gives pitch, harmonics and noise apart, and how long each phoneme lasts;
`services/tts/hibari` bends those. About 60 times faster than real time on one core.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic_settings import BaseSettings, SettingsConfigDict

from perception.voice import Prosody, VoiceReader
from services.common.errors import InvalidRequest
from services.tts import domain
from services.tts.domain import Delivery, Profile, Speech, VoiceReference
from services.tts.hibari import lips, sentences
from services.tts.hibari.likeness import check, fit
from services.tts.hibari.manner import STYLES, Manner, manner
from services.tts.hibari.network import FRAME_HZ, HOP, RATE_HZ, VOICED_HZ, Floats, Network, Utterance, sound
from services.tts.hibari.sentences import Sentence
from services.tts.hibari.timbre import Timbre, bend, cut, pace

LEVEL_DBFS = -26.0
"""Of a calm voice, pauses left out; the level at which telephone speech is tested (ITU-T P.56)."""
KNEE = 0.7
"""Samples above this are bent towards 1, so that the loudest shout does not clip."""
LEAD_FRAMES = 7
"""The model is silent for 0.35 s before it speaks; this much is kept."""
EARLY_FRAMES = 4
"""Its sounds come this much before the times that it gives for them: over many sentences, loudness follows the mouth
shapes best when they are moved 50 ms to the front."""
TAIL_FRAMES = 5
AUDIBLE_DB = 42.0
"""A frame is heard if it is at most this far below the loudest."""
CLEAR_DB = 18.0
"""A pitch counts for what a listener hears as the pitch only in frames at most this far below the loudest."""
WHISPER_MAX = 0.9
"""A fuller whisper has no pitch that a listener could hear."""
FADE_SAMPLES = 120
PAUSE_S = {".": 0.35, "!": 0.3, "?": 0.4, "…": 0.55, ",": 0.12}
PAUSE_OTHER_S = 0.3
PAUSE_CUT_S = 0.12
AUDITION_TEXT = "The boy was there when the sun rose, a rod is used to catch pink salmon."
"""Two of the Harvard sentences (IEEE, 1969), which hold English sounds in their usual shares."""
CLOSERS = "\"'”’)] "  # noqa: RUF001 - a closing quote


class Settings(BaseSettings):
    """What the hibari back-end can be told."""

    model_config = SettingsConfigDict(env_prefix="E3RG_TTS_", frozen=True, hide_input_in_errors=True)

    models_dir: Path = Path(".models")
    """Folder of the weights, as `make models` fills it."""


@dataclass(frozen=True, eq=False)
class HibariVoice:
    """A voice of this back-end: the identity's timbre."""

    timbre: Timbre


class HibariBackend:
    """Speaks with one network on one thread; made by `create`."""

    model = "hibari-heart-0.2.1"
    sample_rate_hz = RATE_HZ
    styles: tuple[str, ...] = tuple(STYLES)
    languages: tuple[str, ...] = ("en",)

    def __init__(self, network: Network, reader: VoiceReader) -> None:
        self._network = network
        self._reader = reader
        self.digest = network.digest
        self._audition = _trimmed(network.utter(network.phonemes(AUDITION_TEXT), 1.0))

    def prepare(self, reference: VoiceReference, profile: Profile) -> HibariVoice:
        """Fits the voice to the reference recording; 0.5 to 1 s.

        Raises:
            InvalidRequest: The recording is too short, silent or not speech, or the language is not English.
        """
        if profile.language.split("-")[0] not in self.languages:
            raise InvalidRequest("header.profile.language", f"is {profile.language!r}; this voice speaks: en")
        try:
            heard = self._reader.read(reference.samples, reference.sample_rate_hz)
        except ValueError as problem:
            raise InvalidRequest("voice", f"{problem}; at least 1 s of speech is needed") from problem
        check(heard, "voice")
        return HibariVoice(fit(heard, profile, self._hear))

    def speak(self, text: str, voice: domain.Voice, delivery: Delivery) -> Iterator[Speech]:
        """Speaks `text`, one `Speech` per sentence; a sentence of over 220 characters comes in pieces.

        Raises:
            InvalidRequest: Nothing in the text has a sound, or the delivery's style or intensity is unknown.
            TypeError: The voice is another back-end's.
        """
        if not isinstance(voice, HibariVoice):
            raise TypeError(f"{type(voice).__name__} is not a voice that this back-end prepared")
        if delivery.style not in STYLES:
            raise InvalidRequest("header.style", f"is {delivery.style!r}; use one of: {', '.join(STYLES)}")
        if not 0 <= delivery.intensity <= 1:
            raise InvalidRequest("header.emotion.intensity", f"is {delivery.intensity}; it must lie between 0 and 1")
        readings = self._read(text)
        first = next(readings, None)
        if first is None:
            raise InvalidRequest("sentence", f"holds nothing that can be said in English: {text[:60]!r}")
        return self._speak(first, readings, voice.timbre, manner(delivery))

    def close(self) -> None:
        """Nothing to free: the runtime frees the model with the object."""

    def _read(self, text: str) -> Iterator[tuple[Sentence, str]]:
        for sentence in sentences.split(sentences.clean(text)):
            phonemes = self._network.phonemes(sentence.text)
            if any(map(lips.is_sound, phonemes)):
                yield sentence, phonemes

    def _speak(
        self, first: tuple[Sentence, str], rest: Iterator[tuple[Sentence, str]], timbre: Timbre, move: Manner
    ) -> Iterator[Speech]:
        yield self._say(*first, timbre, move)
        for sentence, phonemes in rest:
            yield self._say(sentence, phonemes, timbre, move)

    def _say(self, sentence: Sentence, phonemes: str, timbre: Timbre, move: Manner) -> Speech:
        plain = _trimmed(self._network.utter(phonemes, 1.0))
        rate = timbre.rate * move.rate
        spectra = bend(pace(plain.spectra, rate), timbre, move)
        samples = sound(spectra, seed=zlib.crc32(phonemes.encode()))
        loud = _frame_levels(samples)
        audible = loud > loud.max() - AUDIBLE_DB
        samples, level_dbfs = _levelled(samples, loud, LEVEL_DBFS + move.level_db)
        frames = min(len(audible), int(np.flatnonzero(audible)[-1]) + 1 + TAIL_FRAMES)
        speech = _faded(samples[: frames * HOP])
        pause = round(_pause_s(sentence) * move.pause / timbre.rate * FRAME_HZ)
        whole = np.concatenate([speech, np.zeros(pause * HOP, np.float32)])
        ends = np.minimum(plain.ends * (spectra.frames / plain.spectra.frames), frames)
        ends[-1] = frames + pause
        return Speech(
            samples=np.round(whole * 32767).astype(np.int16),
            sample_rate_hz=RATE_HZ,
            phonemes=lips.timeline(plain.symbols, ends, np.pad(audible[:frames], (0, pause)), FRAME_HZ),
            applied=_applied(spectra.pitch_hz[loud > loud.max() - CLEAR_DB], rate, level_dbfs, timbre, move),
        )

    def _hear(self, timbre: Timbre) -> Prosody:
        spectra = bend(self._audition.spectra, timbre, Manner())
        return self._reader.read(sound(spectra, seed=0), RATE_HZ)


def create() -> HibariBackend:
    """Loads the model and says a sentence, so that the first caller does not wait.

    Raises:
        FileNotFoundError: The weights are missing.
    """
    backend = HibariBackend(Network(Settings().models_dir / "hibari" / "hibari.onnx"), VoiceReader())
    # "Zyxoprane" is in no dictionary, so the reader of unknown words is loaded now too.
    for _ in backend.speak(f"Zyxoprane. {AUDITION_TEXT}", HibariVoice(Timbre()), Delivery("cheerful", 1.0)):
        pass
    return backend


def _trimmed(utterance: Utterance) -> Utterance:
    """Cuts the silence before the first sound down to `LEAD_FRAMES`, and puts the times where the sounds are."""
    frames = utterance.spectra.frames
    lead = max(0, int(utterance.ends[0]) - LEAD_FRAMES)
    ends = np.maximum(utterance.ends - lead - EARLY_FRAMES, 0)
    ends[-1] = frames - lead
    return Utterance(utterance.symbols, ends, cut(utterance.spectra, lead, frames))


def _frame_levels(samples: Floats) -> NDArray[np.float64]:
    power = np.mean(samples.reshape(-1, HOP).astype(np.float64) ** 2, axis=1)
    return np.asarray(10 * np.log10(power + 1e-14))


def _levelled(samples: Floats, levels_db: NDArray[np.float64], target_dbfs: float) -> tuple[Floats, float]:
    """Brings the speech to `target_dbfs` and bends its peaks; returns it with the level that it then has."""
    active = levels_db > levels_db.max() - 30
    gain_db = target_dbfs - 10 * np.log10(np.mean(10 ** (levels_db[active] / 10)))
    louder = samples * np.float32(10 ** (gain_db / 20))
    over = np.abs(louder) > KNEE
    louder[over] = np.sign(louder[over]) * (KNEE + (1 - KNEE) * np.tanh((np.abs(louder[over]) - KNEE) / (1 - KNEE)))
    level = 10 * np.log10(np.mean(10 ** (_frame_levels(louder)[active] / 10)))
    return louder, float(level)


def _faded(samples: Floats) -> Floats:
    ramp = np.linspace(0, 1, FADE_SAMPLES, dtype=np.float32)
    samples = samples.copy()
    samples[:FADE_SAMPLES] *= ramp
    samples[-FADE_SAMPLES:] *= ramp[::-1]
    return samples


def _pause_s(sentence: Sentence) -> float:
    return PAUSE_CUT_S if sentence.is_cut else PAUSE_S.get(sentence.text.rstrip(CLOSERS)[-1:], PAUSE_OTHER_S)


def _applied(pitch_hz: Floats, rate: float, level_dbfs: float, timbre: Timbre, move: Manner) -> dict[str, float]:
    applied = {
        "rate": rate,
        "level_dbfs": level_dbfs,
        "tilt_db_octave": timbre.tilt_db_octave + move.tilt_db_octave,
        "formant": timbre.formant * move.formant,
        "breath": timbre.breath + move.breath,
        "whisper": move.whisper,
    }
    voiced = pitch_hz[pitch_hz > VOICED_HZ]
    if not len(voiced) or move.whisper > WHISPER_MAX:
        return applied
    low, middle, high = np.percentile(voiced, (10, 50, 90))
    return applied | {"pitch_hz": float(middle), "pitch_range_semitones": float(12 * np.log2(high / low))}
