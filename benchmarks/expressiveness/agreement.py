"""Tells what the words and the voice of a film carry, and whose voice it is."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

import emotions
from benchmarks.expressiveness import takes, voices
from benchmarks.expressiveness.takes import LINES, Take
from perception.speaker import Floats, SpeakerReader
from perception.voice import VoiceReader, semitones
from services.mllm.backends import text_classifier
from services.mllm.domain import Message

Numbers = NDArray[np.float64]


def read_lines() -> dict[str, str]:
    """Returns, by the class that each line was written for, the class that the project's text voter reads in it."""
    voter, wheel = text_classifier.create(), emotions.load()
    read = {}
    for asked, line in LINES.items():
        classes = wheel.gather(voter.predict(Message(text=line)).distribution)
        read[asked] = max(classes, key=lambda name: classes[name])
    return read


def listen(films: Iterable[Take]) -> dict[tuple[str, str, float], str]:
    """Returns what `voices.guess` hears in each decoded film, by identity, class asked for and intensity.

    The voice is compared with the same person's plain delivery of the same words. So the pace needs no recogniser: it
    is how much sooner the last sound is reached after the first.
    """
    reader = VoiceReader()
    cues = {(take.identity, take.asked, take.intensity): _cues(take, reader) for take in films}
    heard = {}
    for (identity, asked, intensity), (found, voiced) in cues.items():
        plain, _ = cues[identity, asked, 0.0]
        heard[identity, asked, intensity] = voices.guess(np.nan_to_num((found - plain) / voices.STEP), voiced)
    return heard


def speakers(films: Iterable[Take], reader: SpeakerReader) -> dict[tuple[str, float], Numbers]:
    """Returns whose voice is in the decoded films, float64 (films, 256), by identity and intensity."""
    found: dict[tuple[str, float], list[Floats]] = {}
    for take in films:
        found.setdefault((take.identity, take.intensity), []).append(reader.embed(*takes.sound(take)))
    return {key: np.array(embeddings, np.float64) for key, embeddings in found.items()}


def fits(heard: Mapping[tuple[str, str, float], str], styles: Iterable[str]) -> dict[tuple[str, str, float], bool]:
    """Tells of each film whether the voice is heard as its style should be; `styles` are those that the voice has."""
    wheel, styles = emotions.load(), tuple(styles)
    return {key: name in voices.EXPECTED[wheel.voice_style(key[1], styles).name] for key, name in heard.items()}


def _cues(take: Take, reader: VoiceReader) -> tuple[Numbers, float]:
    """Returns the five of `voices.MEASURES` and the share of the speech that has a pitch."""
    samples, rate_hz = takes.sound(take)
    found, track = reader.read(samples, rate_hz), reader.track(samples, rate_hz)
    speaking_s = track.times_s[track.active]
    cues = (
        semitones(found.pitch_hz, 100.0),
        found.pitch_range_semitones,
        found.level_dbfs,
        found.tilt_db_octave,
        -np.log(speaking_s[-1] - speaking_s[0]),
    )
    return np.array(cues), found.voiced_fraction
