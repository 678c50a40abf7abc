"""Speaks English with hibari (6 M parameters, a distillation of Kokoro's `af_heart`), bent to identity and emotion.

The model has one voice and one mood. It gives pitch, harmonics and noise apart, and how long each phoneme lasts;
`services/tts/hibari` bends those. About 60 times faster than real time on one core.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic_settings import BaseSettings, SettingsConfigDict

from perception.voice import Prosody, VoiceReader
from services.tts import domain
from services.tts.domain import Delivery, Profile, Speech, VoiceReference, own
from services.tts.hibari.bending import bend, cut, pace
from services.tts.hibari.network import FRAME_HZ, HOP, RATE_HZ, Network, Utterance, sound
from services.tts.speech import lips, sentences
from services.tts.speech.likeness import FITTING, average, fit, listen
from services.tts.speech.loudness import AUDIBLE_DB, CLEAR_DB, LEVEL_DBFS, faded, frame_levels, mean_level, raised
from services.tts.speech.manner import STYLES, Manner, manner
from services.tts.speech.reading import Dictionary, Reading, readings
from services.tts.speech.timbre import Timbre, applied, decode, encode

LEAD_FRAMES = 7
"""The model is silent for 0.35 s before it speaks; this much is kept."""
EARLY_FRAMES = 4
"""Its sounds come this much before the times that it gives for them: over many sentences, loudness follows the mouth
shapes best when they are moved 50 ms to the front."""
TAIL_FRAMES = 5
AUDITION_TEXT = "The boy was there when the sun rose, a rod is used to catch pink salmon."
"""Two of the Harvard sentences (IEEE, 1969), which hold English sounds in their usual shares."""


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
    fitting = FITTING
    texts_max = 1

    def __init__(self, network: Network, dictionary: Dictionary, reader: VoiceReader) -> None:
        self._network = network
        self._dictionary = dictionary
        self._reader = reader
        self.digest = network.digest
        self._audition = _trimmed(network.utter(dictionary.phonemes(AUDITION_TEXT), 1.0))

    def check(self, reference: VoiceReference) -> None:
        """Listens whether a voice can be fitted to a recording.

        Raises:
            InvalidRequest: It is too short, silent or not speech.
        """
        listen(reference, self._reader)

    def prepare(self, references: Sequence[VoiceReference], profile: Profile) -> HibariVoice:
        """Fits the voice to the recordings, on average; 0.5 to 1 s.

        Raises:
            InvalidRequest: A recording is too short, silent or not speech.
        """
        heard = average([listen(reference, self._reader) for reference in references])
        return HibariVoice(fit(heard, profile, self._hear))

    def pack(self, voice: domain.Voice) -> bytes:
        """Returns the voice's timbre as JSON."""
        return encode(own(voice, HibariVoice).timbre)

    def unpack(self, content: bytes) -> HibariVoice:
        """Returns the voice of a timbre.

        Raises:
            ValueError: These are no bytes of `pack`.
        """
        return HibariVoice(decode(content))

    def speak(self, texts: Sequence[str], voice: domain.Voice, delivery: Delivery) -> Iterator[Speech]:
        """Speaks the texts, one `Speech` per sentence; a sentence of over 220 characters comes in pieces.

        Raises:
            InvalidRequest: Nothing in a text has a sound.
            TypeError: The voice is another back-end's.
        """
        timbre, move = own(voice, HibariVoice).timbre, manner(delivery)
        # A text without a sound is refused here and not when its turn comes.
        found = readings(texts, self._dictionary.phonemes)
        return (self._say(reading, timbre, move) for reading in found)

    def close(self) -> None:
        """Nothing to free: the runtime frees the model with the object."""

    def _say(self, reading: Reading, timbre: Timbre, move: Manner) -> Speech:
        sentence, phonemes, ends_text = reading
        plain = _trimmed(self._network.utter(phonemes, 1.0))
        rate = timbre.rate * move.rate
        spectra = bend(pace(plain.spectra, rate), timbre, move)
        samples = sound(spectra, seed=zlib.crc32(phonemes.encode()))
        loud = frame_levels(samples, HOP)
        audible = loud > loud.max() - AUDIBLE_DB
        samples = raised(samples, LEVEL_DBFS + move.level_db - mean_level(loud))
        level_dbfs = mean_level(frame_levels(samples, HOP))
        frames = min(len(audible), int(np.flatnonzero(audible)[-1]) + 1 + TAIL_FRAMES)
        speech = faded(samples[: frames * HOP])
        pause = round(sentences.pause_s(sentence) * move.pause / timbre.rate * FRAME_HZ)
        whole = np.concatenate([speech, np.zeros(pause * HOP, np.float32)])
        ends = np.minimum(plain.ends * (spectra.frames / plain.spectra.frames), frames)
        ends[-1] = frames + pause
        return Speech(
            samples=np.round(whole * 32767).astype(np.int16),
            sample_rate_hz=RATE_HZ,
            phonemes=lips.timeline(plain.symbols, ends, np.pad(audible[:frames], (0, pause)), FRAME_HZ),
            applied=applied(timbre, move, rate, level_dbfs, spectra.pitch_hz[loud > loud.max() - CLEAR_DB]),
            ends_text=ends_text,
        )

    def _hear(self, timbre: Timbre) -> Prosody:
        spectra = bend(self._audition.spectra, timbre, Manner())
        return self._reader.read(sound(spectra, seed=0), RATE_HZ)


def create() -> HibariBackend:
    """Loads the model and says a sentence, so that the first caller does not wait.

    Raises:
        FileNotFoundError: The weights are missing.
    """
    dictionary = Dictionary()
    network = Network(Settings().models_dir / "hibari" / "hibari.onnx", dictionary)
    backend = HibariBackend(network, dictionary, VoiceReader())
    for _ in backend.speak([AUDITION_TEXT], HibariVoice(Timbre()), Delivery("cheerful", 1.0)):
        pass
    return backend


def _trimmed(utterance: Utterance) -> Utterance:
    """Cuts the silence before the first sound down to `LEAD_FRAMES`, and puts the times where the sounds are."""
    frames = utterance.spectra.frames
    lead = max(0, int(utterance.ends[0]) - LEAD_FRAMES)
    ends = np.maximum(utterance.ends - lead - EARLY_FRAMES, 0)
    ends[-1] = frames - lead
    return Utterance(utterance.symbols, ends, cut(utterance.spectra, lead, frames))
