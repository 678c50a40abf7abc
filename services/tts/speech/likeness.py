"""Fits a timbre to recordings: the model auditions for the part, and the nearest to the recordings gets it."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import numpy as np

from perception.voice import Floats, Prosody, VoiceReader, envelope_of_curve
from services.common.errors import InvalidRequest
from services.tts.domain import Profile, VoiceReference
from services.tts.speech.timbre import Timbre, tilt_curve_db

Audition = Callable[[Timbre], Prosody]
"""Speaks the audition text with a timbre and measures it."""

FITTING = 1
"""Raised with every change of how a timbre is fitted or packed."""
SPEECH_S_MIN = 1.0
VOICED_FRACTION_MIN = 0.15
SYLLABLES_HZ_MIN = 0.8
PITCH = (0.4, 2.0)
FORMANTS = (0.78, 0.84, 0.9, 0.96, 1.02, 1.09, 1.17)
"""From a very tall man to a small child."""
FORMANT_STEP_MIN = 0.015
TILT_DB_OCTAVE = 4.0
COLOUR_SHARE = 0.8
"""How much of the remaining difference is taken over; the rest may be the words that were said."""
COLOUR_DB = 6.0
BREATH_PROBE = 0.6
BREATH_MAX = 0.6
RATE = (0.85, 1.15)
RATE_SHARE = 0.35
"""Taken of a difference in syllables per second, on a logarithmic scale: other words differ as much as other people."""
RATE_BY_AGE = {"child": 0.98, "young": 1.0, "middle-aged": 0.97, "elderly": 0.9}
PITCH_RANGE = (0.8, 1.25)
ELDERLY_TREMOR_SEMITONES = 0.25
PRIOR_DB = 1.0
"""Penalty for a vocal tract `PRIOR_WIDTH` away from what the pitch suggests: one recording says little about size."""
PRIOR_WIDTH = 0.1
_FREQUENCY_HZ = np.linspace(0, 12_000, 1025, dtype=np.float32)


def listen(reference: VoiceReference, reader: VoiceReader) -> Prosody:
    """Measures a recording.

    Raises:
        InvalidRequest: It is too short, silent or not speech.
    """
    try:
        heard = reader.read(reference.samples, reference.sample_rate_hz)
    except ValueError as problem:
        raise InvalidRequest("voice", f"{problem}; at least {SPEECH_S_MIN:g} s of speech is needed") from problem
    check(heard, "voice")
    return heard


def check(reference: Prosody, field: str) -> None:
    """Refuses a recording that no voice can be fitted to.

    Raises:
        InvalidRequest: It is too short, silent or not speech.
    """
    speech_s = reference.speech_s
    if speech_s == 0:
        raise InvalidRequest(field, f"is silent; at least {SPEECH_S_MIN:g} s of one person's speech are needed")
    if speech_s < SPEECH_S_MIN:
        raise InvalidRequest(field, f"holds {speech_s:.2f} s of sound; at least {SPEECH_S_MIN:g} s of it are needed")
    if reference.voiced_fraction < VOICED_FRACTION_MIN or reference.rate_hz < SYLLABLES_HZ_MIN:
        raise InvalidRequest(
            field,
            f"is not speech: {100 * reference.voiced_fraction:.0f}% of it has a pitch and it has "
            f"{reference.rate_hz:.1f} syllables a second; at least {SPEECH_S_MIN:g} s of one person speaking is needed",
        )


def average(heard: Sequence[Prosody]) -> Prosody:
    """Returns what several recordings of one voice have in common: means, the longer ones counting for more."""
    shares = np.array([each.speech_s for each in heard]) / sum(each.speech_s for each in heard)
    means = {
        field.name: sum(share * getattr(each, field.name) for share, each in zip(shares, heard, strict=True))
        for field in fields(Prosody)
    }
    return Prosody(**means)


def fit(reference: Prosody, profile: Profile, audition: Audition) -> Timbre:
    """Returns the timbre with which the model sounds most like `reference`.

    The pitch is set first. Then the size of the vocal tract is searched, coarse to fine, for the smallest
    difference of the long-term envelopes; for each size the best tilt is known in closed form. What remains of
    the difference becomes colour; breath and pace follow from a probe.
    """
    plain = audition(Timbre())
    timbre = Timbre(pitch=float(np.clip(reference.pitch_hz / plain.pitch_hz, *PITCH)))
    timbre, difference, heard = _best_tract(reference, timbre, audition)
    colour = difference - timbre.tilt_db_octave * _tilt_envelope()
    timbre = replace(
        timbre,
        pitch=timbre.pitch * float(np.clip(reference.pitch_hz / heard.pitch_hz, 0.9, 1.1)),
        pitch_range=_ratio(reference.pitch_range_semitones, heard.pitch_range_semitones, PITCH_RANGE),
        colour=np.asarray(np.clip(COLOUR_SHARE * colour, -COLOUR_DB, COLOUR_DB), np.float32),
        rate=_rate(reference, heard, profile),
        tremor_semitones=ELDERLY_TREMOR_SEMITONES if profile.age == "elderly" else 0.0,
    )
    return replace(timbre, breath=_breath(reference, timbre, audition))


def _best_tract(reference: Prosody, timbre: Timbre, audition: Audition) -> tuple[Timbre, Floats, Prosody]:
    """Searches the formant scale; returns the timbre with its tilt, the difference left and what was heard."""
    tried: dict[float, tuple[float, Timbre, Floats, Prosody]] = {}
    # A vocal tract grows with the larynx, but less: across men, women and children roughly with its third root.
    expected = timbre.pitch ** (1 / 3)

    def attempt(formant: float) -> float:
        if formant not in tried:
            heard = audition(replace(timbre, formant=formant))
            difference = reference.envelope - heard.envelope
            tilt = _tilt_envelope()
            slope = float(np.clip(difference @ tilt / (tilt @ tilt), -TILT_DB_OCTAVE, TILT_DB_OCTAVE))
            left = float(np.linalg.norm(difference - slope * tilt))
            cost = left + PRIOR_DB * ((formant - expected) / PRIOR_WIDTH) ** 2
            tried[formant] = (cost, replace(timbre, formant=formant, tilt_db_octave=slope), difference, heard)
        return tried[formant][0]

    # Neighbours of what the pitch suggests come first; only if the best lies at the border, farther ones are tried.
    nearest = int(np.argmin([abs(formant - expected) for formant in FORMANTS]))
    place = min(range(max(0, nearest - 1), min(len(FORMANTS), nearest + 2)), key=lambda i: attempt(FORMANTS[i]))
    while neighbours := [i for i in (place - 1, place + 1) if 0 <= i < len(FORMANTS)]:
        better = min(neighbours, key=lambda i: attempt(FORMANTS[i]))
        if attempt(FORMANTS[better]) >= attempt(FORMANTS[place]):
            break
        place = better
    best, step = FORMANTS[place], 0.03
    while step >= FORMANT_STEP_MIN:
        best = min((best - step, best, best + step), key=attempt)
        step /= 2
    _, fitted, difference, heard = tried[best]
    return fitted, difference, heard


def _breath(reference: Prosody, timbre: Timbre, audition: Audition) -> float:
    clear = audition(timbre).breathiness_db
    breathy = audition(replace(timbre, breath=BREATH_PROBE)).breathiness_db
    if breathy <= clear:
        return 0.0
    return float(np.clip(BREATH_PROBE * (reference.breathiness_db - clear) / (breathy - clear), 0, BREATH_MAX))


def _rate(reference: Prosody, heard: Prosody, profile: Profile) -> float:
    expected = RATE_BY_AGE.get(profile.age, 1.0)
    if not heard.rate_hz:
        return expected
    return float(np.clip(expected * (reference.rate_hz / heard.rate_hz) ** RATE_SHARE, *RATE))


def _ratio(wanted: float, found: float, bounds: tuple[float, float]) -> float:
    return float(np.clip(wanted / found, *bounds)) if found > 0 else 1.0


def _tilt_envelope() -> Floats:
    return envelope_of_curve(_FREQUENCY_HZ, tilt_curve_db(_FREQUENCY_HZ))
