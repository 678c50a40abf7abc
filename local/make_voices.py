"""Makes `voice.wav` of the identities that come with the project; their voices, like their faces, are nobody's.

    python -m local.make_voices

Each is the model's own voice bent to a timbre of its own. Run it again when a timbre changes here, never for one
recording alone: the tests measure that all stay apart.
"""

import wave
from pathlib import Path

import numpy as np

from services.tts.backends.hibari import HibariBackend, HibariVoice, create
from services.tts.domain import Delivery
from services.tts.speech.timbre import Timbre

FOLDER = Path(__file__).parent.parent / "services" / "memory" / "identities"
DELIVERY = Delivery("friendly", 0.4)


def _colour(*cepstra_db: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """An envelope from its c2, c3, ...: what sets two throats of one size apart."""
    colour = np.zeros(16, np.float32)
    colour[1 : 1 + len(cepstra_db)] = cepstra_db
    return colour


TIMBRES = {
    "amara": Timbre(
        pitch=0.95, formant=0.98, tilt_db_octave=-0.9, rate=1.06, colour=_colour(-1.8, -1.6, 0.8, 1.0, -1.2)
    ),
    "anna": Timbre(pitch=1.07, formant=1.03, tilt_db_octave=0.6, rate=1.02, colour=_colour(1.5, -0.8, -1.5, 0.8)),
    "kenji": Timbre(
        pitch=0.64, formant=0.91, tilt_db_octave=1.0, rate=1.04, pitch_range=0.95, colour=_colour(0.8, 2.0, 0.5, -1.5)
    ),
    "ingrid": Timbre(
        pitch=0.89,
        formant=0.95,
        tilt_db_octave=-1.5,
        rate=0.86,
        breath=0.45,
        tremor_semitones=0.3,
        colour=_colour(-2.0, 0.6, 1.5, -1.0),
    ),
    "leila": Timbre(
        pitch=0.82, formant=0.93, tilt_db_octave=1.0, rate=0.96, pitch_range=1.1, colour=_colour(1.8, 0.2, 1.4, 0.8)
    ),
    "marcus": Timbre(
        pitch=0.5, formant=0.83, tilt_db_octave=-0.8, rate=0.94, breath=0.15, colour=_colour(-0.8, -2.0, 0.8, 1.5)
    ),
    "walter": Timbre(
        pitch=0.59,
        formant=0.87,
        tilt_db_octave=-1.6,
        rate=0.84,
        breath=0.4,
        tremor_semitones=0.25,
        colour=_colour(2.0, -1.8, -1.6, 0.6),
    ),
}
TEXTS = {
    "amara": "Hi, my name is Amara. I am a nurse, and I sing in a choir on Fridays. So, how was your week?",
    "anna": "Hi, I'm Anna. I paint in the mornings and draw maps of small islands. Tell me how your day has been.",
    "kenji": "Hello, my name is Kenji. I repair old radios, and I like a long walk after dinner. What is on your mind?",
    "ingrid": "Hello, dear, I'm Ingrid. I taught music for thirty years; now I grow roses. Sit down with me.",
    "leila": "Good morning, I'm Leila. I have lived in five countries, and I am still curious. What would you ask me?",
    "marcus": "Good evening, I'm Marcus. I cook for a living, and I have time to listen. How are things at home?",
    "walter": "Good day, I'm Walter. I sold books all my life, and I am in no hurry now. Tell me what happened.",
}


def record(backend: HibariBackend, name: str) -> None:
    """Writes the recording of one identity, 16-bit mono."""
    voice = HibariVoice(TIMBRES[name])
    samples = np.concatenate([speech.samples for speech in backend.speak([TEXTS[name]], voice, DELIVERY)])
    with wave.open(str(FOLDER / name / "voice.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(backend.sample_rate_hz)
        file.writeframes(samples.astype("<i2").tobytes())


def main() -> None:
    """Records all."""
    backend = create()
    for name in TIMBRES:
        record(backend, name)


if __name__ == "__main__":
    main()
