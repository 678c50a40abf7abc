"""How an emotion changes a voice: nine styles as moves away from how the speaker talks when calm.

Directions are those of the literature on vocal emotion (Murray & Arnott, 1993; Juslin & Laukka, 2003: pace, pitch
level and range, loudness and high-frequency energy per emotion; Tartter, 1980: a smile raises the formants), the
sizes were set with hibari so that each is measurable and every word stays intelligible.
"""

from dataclasses import dataclass

from services.tts.domain import Delivery


@dataclass(frozen=True)
class Manner:
    """Moves relative to the speaker's own calm voice; the defaults change nothing.

    Attributes:
        rate: Times as fast.
        pitch_semitones: Median pitch higher by.
        pitch_range: Times as wide, in semitones around the median.
        level_db: Louder by.
        tilt_db_octave: Spectrum brighter by, around 1 kHz.
        formant: Times as high.
        breath: More noise between the harmonics; 1 is as much as harmonics.
        whisper: Share of the voice that becomes noise, 0 to 1.
        tremor_semitones: Depth of a trembling of the pitch.
        pause: Times as long between sentences.
    """

    rate: float = 1.0
    pitch_semitones: float = 0.0
    pitch_range: float = 1.0
    level_db: float = 0.0
    tilt_db_octave: float = 0.0
    formant: float = 1.0
    breath: float = 0.0
    whisper: float = 0.0
    tremor_semitones: float = 0.0
    pause: float = 1.0


STYLES: dict[str, Manner] = {
    "default": Manner(),
    "whispering": Manner(
        rate=0.92, pitch_semitones=-0.5, pitch_range=0.8, level_db=-8, tilt_db_octave=0.5, whisper=1.0, pause=1.2
    ),
    "shouting": Manner(
        rate=0.95, pitch_semitones=6, pitch_range=1.15, level_db=8, tilt_db_octave=3, formant=1.03, pause=0.8
    ),
    "excited": Manner(
        rate=1.14, pitch_semitones=4, pitch_range=1.45, level_db=4, tilt_db_octave=2.2, formant=1.03, pause=0.7
    ),
    "cheerful": Manner(
        rate=1.07, pitch_semitones=2.5, pitch_range=1.35, level_db=2, tilt_db_octave=1.7, formant=1.03, pause=0.85
    ),
    "terrified": Manner(
        rate=1.12,
        pitch_semitones=5,
        pitch_range=0.85,
        level_db=1,
        tilt_db_octave=0.5,
        breath=0.5,
        tremor_semitones=0.7,
        pause=0.7,
    ),
    "angry": Manner(
        rate=1.07, pitch_semitones=1.5, pitch_range=1.3, level_db=5, tilt_db_octave=2.5, formant=0.99, pause=0.8
    ),
    "sad": Manner(
        rate=0.84, pitch_semitones=-2.5, pitch_range=0.6, level_db=-4, tilt_db_octave=-2, breath=0.45, pause=1.4
    ),
    "friendly": Manner(
        rate=0.96, pitch_semitones=1.2, pitch_range=1.2, level_db=0.5, tilt_db_octave=-0.5, formant=1.01, breath=0.15
    ),
}


def manner(delivery: Delivery) -> Manner:
    """Returns the move of a style at an intensity: none at 0, the whole of `STYLES` at 1, ever more in between."""
    full, share = STYLES[delivery.style], delivery.intensity
    return Manner(
        rate=full.rate**share,
        pitch_semitones=full.pitch_semitones * share,
        pitch_range=full.pitch_range**share,
        level_db=full.level_db * share,
        tilt_db_octave=full.tilt_db_octave * share,
        formant=full.formant**share,
        breath=full.breath * share,
        whisper=full.whisper * share,
        tremor_semitones=full.tremor_semitones * share,
        pause=full.pause**share,
    )
