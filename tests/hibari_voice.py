"""The hibari voice with its real model, fitted to the recordings of all identities."""

import wave
from functools import cache
from pathlib import Path

import numpy as np

from perception.voice import Floats
from services.tts.backends.hibari import HibariBackend, HibariVoice, create
from services.tts.domain import Delivery, Profile, Speech, VoiceReference
from services.tts.speech.timbre import Timbre

ROOT = Path(__file__).parents[1]
IDENTITIES = ROOT / "services" / "memory" / "identities"
PROFILES = {
    "anna": Profile("young", "female", "high"),
    "kenji": Profile("young", "male", "mid"),
    "ingrid": Profile("elderly", "female", "mid"),
    "marcus": Profile("middle-aged", "male", "low"),
}
TEXT = "We could take a walk along the river after lunch. The weather should stay warm until the evening."
PLAIN = HibariVoice(Timbre())
CALM = Delivery("default", 0.0)


@cache
def loaded() -> HibariBackend:
    return create()


def recording(name: str) -> VoiceReference:
    with wave.open(str(IDENTITIES / name / "voice.wav")) as file:
        samples = np.asarray(np.frombuffer(file.readframes(-1), "<i2") / 32768, np.float32)
        return VoiceReference(name, samples, file.getframerate())


@cache
def fitted_voices() -> dict[str, HibariVoice]:
    """The voice of every identity. They take seconds, and nothing changes them: one set serves all tests."""
    return {name: loaded().prepare([recording(name)], profile) for name, profile in PROFILES.items()}


def spoken(
    backend: HibariBackend, text: str = TEXT, voice: HibariVoice = PLAIN, delivery: Delivery = CALM
) -> list[Speech]:
    return list(backend.speak([text], voice, delivery))


def joined(speeches: list[Speech]) -> Floats:
    return np.asarray(np.concatenate([speech.samples for speech in speeches]) / 32768, np.float32)
