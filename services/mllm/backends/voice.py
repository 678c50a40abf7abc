"""Votes on how the user sounds, and tells what was said: Whisper (tiny English, and base, 8-bit) and the prosody.

The vote is about the voice alone, by the rules of `services.mllm.voice.cues`; what the words mean is left to the text
voters. Whisper: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision" (2022).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.vad import VadOptions, get_speech_timestamps
from numpy.typing import NDArray
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

import emotions
from emotions import Wheel
from perception.voice import Prosody, VoiceReader
from services.common.weights import digest_of
from services.mllm.domain import (
    AUDIO_RATE_HZ,
    Card,
    Level,
    Message,
    Modality,
    Prediction,
    Transcript,
    expression_vote,
)
from services.mllm.voice.cues import PROFILES, Cues, cues_of, weigh
from services.mllm.voice.listener import Listener, is_unsure

WEIGHTS = ("config.json", "model.bin", "tokenizer.json", "vocabulary.txt")
SPEECH_S_MIN = 1.0
"""With less speech than this, about four syllables and the detector's margins, pace and range cannot be told."""
VOICED_MIN = 0.15
"""Share of the speech with a pitch; below it is whisper or noise, which the profiles do not cover."""
WINDOW_S = 28.0
"""Whisper hears 30 s at once. Up to here it need not write time stamps to find its way, which saves time."""
VAD = VadOptions(min_speech_duration_ms=150, min_silence_duration_ms=500, speech_pad_ms=150)

Floats = NDArray[np.float32]


class Settings(BaseSettings):
    """What the voice back-end can be told."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MLLM_", frozen=True, hide_input_in_errors=True)

    models_dir: Path = Path(".models")
    """Folder of the weights, as `make models` fills it."""
    beam_size: int = Field(default=5, ge=1, le=10)
    """Transcripts that Whisper keeps open while it listens; 5 takes no longer than 1 in noise and errs less."""


class VoiceBackend:
    """Votes on the sound of speech and transcribes it.

    Args:
        whisper: Recognises the words of English.
        listener: Hears other languages.
        reader: Measures the voice.
        wheel: The ontology; its classes must be those of `PROFILES`.
        digest: SHA-256 of Whisper's files.
        beam_size: See `Settings`.

    Raises:
        ValueError: The wheel has other classes.
    """

    def __init__(
        self,
        whisper: WhisperModel,
        listener: Listener,
        reader: VoiceReader,
        wheel: Wheel,
        digest: str,
        beam_size: int,
    ) -> None:
        if set(PROFILES) != set(wheel.classes):
            raise ValueError(f"the voice profiles do not fit the wheel's classes: {set(PROFILES) ^ set(wheel.classes)}")
        self._whisper, self._listener = whisper, listener
        self._reader = reader
        self._wheel = wheel
        self._beam_size = beam_size
        self.card = Card("whisper-tiny-en-prosody", digest, frozenset({Modality.AUDIO}), Level.CLASS)

    def predict(self, message: Message) -> Prediction:
        """Votes on the voice; abstains when there is no audio, hardly any speech, no pitch in it or nothing clear."""
        if message.audio is None:
            return _abstention("no audio", frozenset())
        speech = _speech(message.audio)
        speech_s = len(speech) / AUDIO_RATE_HZ
        if speech_s < SPEECH_S_MIN:
            said = f"{speech_s:.2f} s of speech; at least {SPEECH_S_MIN} s are needed" if speech_s else "no speech"
            return _abstention(said, frozenset({Modality.AUDIO}))
        prosody = self._reader.read(speech, AUDIO_RATE_HZ)
        if not prosody.voiced_fraction >= VOICED_MIN:
            return _abstention("no pitch in the voice: whispered or noisy", frozenset({Modality.AUDIO}))
        cues = cues_of(prosody, message.text)
        vote = weigh(cues)
        evidence = _evidence(prosody, cues, speech_s) | _place(vote, self._wheel)
        return expression_vote(vote, frozenset({Modality.AUDIO}), evidence)

    def transcribe(self, audio: Floats) -> Transcript:
        """Transcribes speech, float32 (n,) at 16 kHz: English, or another language where that is sure.

        Where no speech is found, Whisper is not asked: it would make something up.
        """
        speech = _speech(audio)
        if not len(speech):
            return Transcript("", "en", 1.0)
        segments = list(
            self._whisper.transcribe(
                speech,
                language="en",
                beam_size=self._beam_size,
                temperature=0.0,
                without_timestamps=len(speech) <= WINDOW_S * AUDIO_RATE_HZ,
                condition_on_previous_text=False,
            )[0]
        )
        if is_unsure(segments) and (other := self._listener.hear(speech)):
            return other
        text = " ".join(segment.text.strip() for segment in segments)
        lengths = [segment.end - segment.start for segment in segments]
        silent = [segment.no_speech_prob for segment in segments]
        return Transcript(text, "en", float(np.average(silent, weights=lengths)) if sum(lengths) else 1.0)

    def close(self) -> None:
        """Frees the memory of both recognisers."""
        self._whisper.model.unload_model()
        self._listener.close()


def create() -> VoiceBackend:
    """Loads the models, warm.

    Raises:
        FileNotFoundError: Weights are missing; the message names the file.
    """
    settings = Settings()
    folders = [settings.models_dir / name for name in ("whisper-tiny-en", "whisper-base")]
    digest = digest_of(*(folder / name for folder in folders for name in WEIGHTS))
    whisper, second = (
        WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1, local_files_only=True)
        for folder in folders
    )
    reader = VoiceReader()
    _warm(whisper, second, reader)
    return VoiceBackend(whisper, Listener(second), reader, emotions.load(), digest, settings.beam_size)


def _speech(audio: Floats) -> Floats:
    """Cuts out what Silero's voice detector (MIT, inside faster-whisper) takes for speech, in order."""
    if not len(audio):
        return audio
    spans = get_speech_timestamps(audio, VAD)
    return np.concatenate([audio[span["start"] : span["end"]] for span in spans]) if spans else audio[:0]


def _evidence(prosody: Prosody, cues: Cues, speech_s: float) -> dict[str, str]:
    return {
        "speech_s": f"{speech_s:.1f}",
        "pitch_hz": f"{prosody.pitch_hz:.0f}, {cues.pitch:+.1f} deviations from its likely register",
        "pitch_range_semitones": f"{prosody.pitch_range_semitones:.1f}, {cues.range:+.1f} deviations",
        "rate_hz": f"{prosody.rate_hz:.1f} peaks of loudness, pace {cues.rate:+.1f} deviations",
        "tilt_db_octave": f"{prosody.tilt_db_octave:.1f}, effort {cues.effort:+.1f} deviations",
        "level_dbfs": f"{prosody.level_dbfs:.0f}, {cues.loudness:+.1f} deviations, gain unknown",
    }


def _place(vote: Mapping[str, float], wheel: Wheel) -> dict[str, str]:
    """Where on the wheel the vote lies on average."""
    return {
        axis: f"{sum(share * getattr(wheel.label(name), axis) for name, share in vote.items()):+.2f}"
        for axis in ("valence", "arousal")
    }


def _abstention(reason: str, saw: frozenset[Modality]) -> Prediction:
    return Prediction(Level.CLASS, {}, saw, "classified", abstained=reason)


def _warm(whisper: WhisperModel, second: WhisperModel, reader: VoiceReader) -> None:
    """Runs every model once."""
    hum = (0.1 * np.sin(2 * np.pi * 150 * np.arange(AUDIO_RATE_HZ) / AUDIO_RATE_HZ)).astype(np.float32)
    _speech(hum)
    reader.read(hum, AUDIO_RATE_HZ)
    # A hum is no speech: without a limit Whisper might go on about it for long.
    list(whisper.transcribe(hum, language="en", beam_size=1, temperature=0.0, max_new_tokens=4)[0])
    second.detect_language(hum)
