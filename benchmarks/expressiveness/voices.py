"""Says one sentence in every voice style and measures, in the finished sound, which emotion it carries.

    make models WITH=kokoro
    python -m benchmarks.expressiveness.voices [--voice kokoro] [--identity NAME]…

No emotion recogniser for speech can be had without a model hub, so the judge is a rule: how people's voices move in
five emotions, as published, against how this voice moved from its own neutral. It measures sound and knows nothing of
what was asked; but the manners were written from the same literature, so a match says that the emotion is in the sound
as the literature describes it, not that a listener would name it. `docs/voices.md` explains the tables.
"""

import os

# Before NumPy is imported: its threads would spin against the models'.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.hearing import Ear, Person, errors, joined, people, spelt
from perception.speaker import likeness
from perception.voice import Floats, semitones
from services.tts.backends import hibari, kokoro
from services.tts.domain import Backend, Delivery, Voice

Numbers = NDArray[np.float64]

VOICES: dict[str, Callable[[], Backend]] = {"hibari": hibari.create, "kokoro": kokoro.create}
SENTENCE = "The boy was there when the sun rose, and his brother brought the mail."
INTENSITIES = (0.3, 0.6, 1.0)
MEASURES = ("pitch", "range", "level", "bright", "pace")
STEP = np.array([2.0, 3.0, 3.0, 2.4, 0.08])
"""What counts as one clear step: semitones, semitones, dB, dB per octave, natural logarithm. The level's 3 dB are the
brightness's too: 2.4 dB per octave are 3 dB between the halves of the band in which it is measured."""
RULES = {
    "happy": (1, 1, 0.5, 0.5, 1),
    "angry": (1, 1, 1, 1, 1),
    "fear": (1, -0.5, 0, 0, 1),
    "sad": (-1, -1, -1, -1, -1),
}
"""Which way the measures go in an emotion: 1 up, -1 down, half where one source says "medium", 0 where the two
disagree. The cues are those of Juslin & Laukka ("Communication of Emotions in Vocal Expression", 2003:
summary of patterns per emotion) and Scherer ("Vocal communication of emotion", 2003: table of effects)."""
EXPECTED = {
    "default": {"neutral"},
    "cheerful": {"happy"},
    "excited": {"happy", "angry"},
    "angry": {"angry"},
    "shouting": {"angry"},
    "terrified": {"fear"},
    "sad": {"sad"},
    "friendly": {"neutral", "happy"},
    "whispering": {"whisper"},
}
"""What a style should be heard as. Excitement may be joy or anger: words tell them apart."""
NEUTRAL_STEPS = 0.8
"""Below this length, the move is no emotion."""
WHISPER_FRACTION = 0.25
"""Less of a whisper than this has a pitch."""


@dataclass(frozen=True)
class Clip:
    """One way of saying the sentence, as it was heard."""

    person: str
    style: str
    intensity: float
    cues: Numbers
    voiced_fraction: float
    embedding: Floats
    mistakes: int


def main() -> int:
    """Runs the benchmark; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", choices=VOICES, default="hibari", help="back-end (default: %(default)s)")
    parser.add_argument("--identity", action="append", default=[], help="only this one; may be given several times")
    arguments = parser.parse_args()
    try:
        ear, backend = Ear(), VOICES[arguments.voice]()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    chosen = people(arguments.identity)
    clips = [clip for person in chosen for clip in _clips(backend, person, ear)]
    plain = {clip.person: clip.cues for clip in clips if clip.style == "default"}
    print(f"{arguments.voice}: {len(chosen)} identities, the sentence {SENTENCE!r}")
    _print_moves(clips, plain)
    _print_guesses(clips, plain)
    own = {each.name: ear.speaker.embed(each.recording.samples, each.recording.sample_rate_hz) for each in chosen}
    _print_likeness(clips, own)
    return 0


def guess(move: Numbers, voiced_fraction: float) -> str:
    """Names the emotion of a voice.

    Args:
        move: How far each of `MEASURES` is from the same voice's neutral, in steps, float64 (5,).
        voiced_fraction: Share of the speech that has a pitch.
    """
    if voiced_fraction < WHISPER_FRACTION:
        return "whisper"
    if np.linalg.norm(move) < NEUTRAL_STEPS:
        return "neutral"
    return max(RULES, key=lambda emotion: float(move @ RULES[emotion]) / float(np.linalg.norm(RULES[emotion])))


def _clips(backend: Backend, person: Person, ear: Ear) -> Iterator[Clip]:
    voice = person.voice(backend)
    for style in backend.styles:
        for intensity in INTENSITIES if style != "default" else (0.0,):
            yield _clip(backend, voice, person.name, Delivery(style, intensity), ear)
    print(f"{person.name} heard", file=sys.stderr, flush=True)


def _clip(backend: Backend, voice: Voice, person: str, delivery: Delivery, ear: Ear) -> Clip:
    samples = joined(list(backend.speak([SENTENCE], voice, delivery)))
    sound = samples, backend.sample_rate_hz
    prosody, heard = ear.read(*sound), ear.words(*sound)
    pace = np.log(len(heard.words) / (heard.end_s - heard.start_s)) if heard.words else np.nan
    pitch, width = semitones(prosody.pitch_hz, 100.0), prosody.pitch_range_semitones
    return Clip(
        person=person,
        style=delivery.style,
        intensity=delivery.intensity,
        cues=np.array([pitch, width, prosody.level_dbfs, prosody.tilt_db_octave, pace]),
        voiced_fraction=prosody.voiced_fraction,
        embedding=ear.speaker.embed(*sound),
        mistakes=errors(spelt(SENTENCE), heard.words),
    )


def _move(clip: Clip, plain: Mapping[str, Numbers]) -> Numbers:
    """How far a clip is from the same voice's neutral, in steps. What cannot be measured has not moved."""
    return np.asarray(np.nan_to_num((clip.cues - plain[clip.person]) / STEP))


def _print_moves(clips: Sequence[Clip], plain: Mapping[str, Numbers]) -> None:
    print("\nmeasured moves away from the same voice's neutral, mean of identities at intensity 1")
    print(f"{'style':12}" + "".join(f"{name:>9}" for name in MEASURES) + "   (st, st, dB, dB/octave, %)")
    for style in EXPECTED:
        of_style = [clip for clip in clips if clip.style == style and clip.intensity == 1]
        if of_style:
            mean = np.mean([_move(clip, plain) for clip in of_style], axis=0) * STEP
            mean[-1] = 100 * (np.exp(mean[-1]) - 1)
            print(f"{style:12}" + "".join(f"{value:+9.1f}" for value in mean))


def _print_guesses(clips: Sequence[Clip], plain: Mapping[str, Numbers]) -> None:
    names = ["neutral", *RULES, "whisper"]
    for intensity in INTENSITIES:
        print(f"\nasked (down) and measured (across) at intensity {intensity:g}")
        print(f"{'style':12}" + "".join(f"{name:>9}" for name in names) + "    right")
        right = total = 0
        for style, fitting in EXPECTED.items():
            asked = [clip for clip in clips if clip.style == style and clip.intensity in (intensity, 0.0)]
            found = Counter(guess(_move(clip, plain), clip.voiced_fraction) for clip in asked)
            # A voice's neutral is where it is measured from, so it cannot be wrong and does not count.
            fits = sum(found[name] for name in fitting) if style != "default" else 0
            right, total = right + fits, total + (len(asked) if style != "default" else 0)
            tail = f"{fits:5} of {len(asked)}" if style != "default" else ""
            print(f"{style:12}" + "".join(f"{found[name] or '.':>9}" for name in names) + tail)
        print(f"{right} of {total} as asked")


def _print_likeness(clips: Sequence[Clip], own: Mapping[str, Floats]) -> None:
    print("\nlikeness (GE2E cosine) of the clips at intensity 1 to the recordings, and words wrong of 100")
    print(f"{'style':12}{'own':>9}{'others':>9}{'own is nearest':>18}{'words wrong':>14}")
    for style in EXPECTED:
        of_style = [clip for clip in clips if clip.style == style and clip.intensity in (0.0, 1.0)]
        table = [{name: likeness(clip.embedding, embedding) for name, embedding in own.items()} for clip in of_style]
        mine = [row[clip.person] for row, clip in zip(table, of_style, strict=True)]
        others = [
            np.mean([row[name] for name in row if name != clip.person] or [np.nan])
            for row, clip in zip(table, of_style, strict=True)
        ]
        nearest = sum(
            max(row, key=lambda name: row[name]) == clip.person for row, clip in zip(table, of_style, strict=True)
        )
        wrong = 100 * sum(clip.mistakes for clip in of_style) / (len(of_style) * len(spelt(SENTENCE)))
        print(f"{style:12}{np.mean(mine):9.2f}{np.mean(others):9.2f}{f'{nearest} of {len(of_style)}':>18}{wrong:14.1f}")


if __name__ == "__main__":
    sys.exit(main())
