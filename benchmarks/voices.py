"""Sets the embedded voices side by side: whose voice it is, what is understood, and how soon it is heard.

    make models WITH=kokoro
    python -m benchmarks.voices [--identity NAME]… [--keep FOLDER]

Both speak the same sentences for the same identities. Times are CPU seconds of this process, on one thread, so that
they mean the same on a busy machine. `docs/voices.md` explains the tables.
"""

import os

# Before NumPy is imported: its threads would spin against the models'.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import time
import wave
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.hearing import Ear, Person, errors, joined, people, spelt
from perception.speaker import likeness
from perception.voice import Floats, Prosody, envelope_distance_db, semitones
from services.tts.backends import hibari, kokoro
from services.tts.domain import Backend, Delivery, Speech

Numbers = NDArray[np.float64]
Reference = tuple[Floats, Prosody]
"""Of an identity's recording: who speaks, and how."""

CALM = Delivery("default", 0.0)
SENTENCES = (
    "I packed a blue blanket, three books and a box of pencils for the journey.",
    "If the rain stops before noon, we could walk around the lake and have some tea.",
    "Her brother found the old photograph behind the kitchen clock.",
)


@dataclass(frozen=True)
class Said:
    """What one voice said for one identity.

    Attributes:
        samples: All sentences, float32.
        embedding: Who speaks.
        prosody: How.
        mistakes: Words that the recogniser got wrong.
        words: Words that were said.
        prepare_s: CPU seconds for fitting the voice.
        first_s: CPU seconds to the first stretch of a sentence, mean.
        spent: CPU seconds per second of speech.
    """

    samples: Floats
    embedding: Floats
    prosody: Prosody
    mistakes: int
    words: int
    prepare_s: float
    first_s: float
    spent: float


def main() -> int:
    """Runs the benchmark; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--identity", action="append", default=[], help="only this one; may be given several times")
    parser.add_argument("--keep", type=Path, help="put the speech into this folder")
    arguments = parser.parse_args()
    try:
        ear = Ear()
        backends: dict[str, Backend] = {"hibari": hibari.create(), "kokoro": kokoro.create()}
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    chosen = people(arguments.identity)
    own = {person.name: _measured(ear, person) for person in chosen}
    said: dict[str, dict[str, Said]] = {}
    for name, backend in backends.items():
        said[name] = {person.name: _say(backend, person, ear) for person in chosen}
        for person in chosen if arguments.keep else ():
            _keep(arguments.keep / f"{name}-{person.name}.wav", said[name][person.name].samples, backend.sample_rate_hz)
    alike = {name: _table(spoken, own, _alike) for name, spoken in said.items()}
    apart = {name: _table(spoken, own, _apart) for name, spoken in said.items()}
    for name in said:
        _print_table(f"{name}: likeness of speakers (GE2E cosine)", list(own), alike[name], np.argmax)
        _print_table(f"{name}: pitch and envelope apart, st + dB", list(own), apart[name], np.argmin)
    _print_summary(said, alike, apart)
    return 0


def _measured(ear: Ear, person: Person) -> Reference:
    reference = person.recording
    sound = reference.samples, reference.sample_rate_hz
    return ear.speaker.embed(*sound), ear.read(*sound)


def _say(backend: Backend, person: Person, ear: Ear) -> Said:
    start_s = time.process_time()
    voice = person.voice(backend)
    prepare_s = time.process_time() - start_s
    firsts, spent_s, mistakes, speeches = [], 0.0, 0, list[Speech]()
    for sentence in SENTENCES:
        start_s = time.process_time()
        speaking = iter(backend.speak([sentence], voice, CALM))
        said = [next(speaking)]
        firsts.append(time.process_time() - start_s)
        said += speaking
        spent_s += time.process_time() - start_s
        heard = ear.words(joined(said), backend.sample_rate_hz).words
        mistakes += errors(spelt(sentence), heard)
        speeches += said
    samples = joined(speeches)
    return Said(
        samples=samples,
        embedding=ear.speaker.embed(samples, backend.sample_rate_hz),
        prosody=ear.read(samples, backend.sample_rate_hz),
        mistakes=mistakes,
        words=sum(len(spelt(sentence)) for sentence in SENTENCES),
        prepare_s=prepare_s,
        first_s=float(np.mean(firsts)),
        spent=spent_s / (len(samples) / backend.sample_rate_hz),
    )


def _table(
    said: Mapping[str, Said], own: Mapping[str, Reference], measure: Callable[[Said, Reference], float]
) -> Numbers:
    """Every identity's speech against every identity's recording: float64 (identities, identities)."""
    return np.array([[measure(spoken, reference) for reference in own.values()] for spoken in said.values()])


def _alike(spoken: Said, reference: Reference) -> float:
    return likeness(spoken.embedding, reference[0])


def _apart(spoken: Said, reference: Reference) -> float:
    """How unlike two voices are, without the network of the other measure, by which Kokoro's speaker was chosen."""
    mine, other = spoken.prosody, reference[1]
    return abs(semitones(mine.pitch_hz, other.pitch_hz)) + envelope_distance_db(mine.envelope, other.envelope)


def _print_table(title: str, names: Sequence[str], table: Numbers, best: Callable[[Numbers], np.intp]) -> None:
    print(f"\n{title}: speech down, recordings across, * the nearest\n{'':10}" + "".join(f"{n:>9}" for n in names))
    for name, row in zip(names, table, strict=True):
        cells = (f"{value:8.2f}{'*' if place == best(row) else ' '}" for place, value in enumerate(row))
        print(f"{name:10}{''.join(cells)}")


def _print_summary(
    said: Mapping[str, Mapping[str, Said]], alike: Mapping[str, Numbers], apart: Mapping[str, Numbers]
) -> None:
    count = len(next(iter(alike.values())))
    others = ~np.eye(count, dtype=bool)
    rows: dict[str, Callable[[str], float]] = {
        "likeness to the own recording": lambda name: float(np.mean(np.diag(alike[name]))),
        "likeness to the others' recordings": lambda name: float(np.mean(alike[name][others])),
        "distance from the own recording": lambda name: float(np.mean(np.diag(apart[name]))),
        "distance from the others' recordings": lambda name: float(np.mean(apart[name][others])),
        f"nearest to the own recording, likeness, of {count}": lambda name: _own(np.argmax(alike[name], axis=1)),
        f"nearest to the own recording, distance, of {count}": lambda name: _own(np.argmin(apart[name], axis=1)),
        "likeness among the voices": lambda name: _among(list(said[name].values())),
        "words wrong of 100": lambda name: 100 * _total(said[name], "mistakes") / _total(said[name], "words"),
        "s to fit the voice": lambda name: _total(said[name], "prepare_s") / count,
        "s to the first sound": lambda name: _total(said[name], "first_s") / count,
        "s of computing per s of speech": lambda name: _total(said[name], "spent") / count,
    }
    print(f"\n{'all identities':50}" + "".join(f"{name:>10}" for name in said))
    for title, measure in rows.items():
        print(f"{title:50}" + "".join(f"{measure(name):10.2f}" for name in said))


def _own(nearest: NDArray[np.intp]) -> float:
    return float(np.sum(nearest == np.arange(len(nearest))))


def _total(said: Mapping[str, Said], field: str) -> float:
    return float(sum(getattr(spoken, field) for spoken in said.values()))


def _among(said: Sequence[Said]) -> float:
    """Mean likeness of two different identities' voices: the lower, the more different they are."""
    return float(np.mean([likeness(one.embedding, other.embedding) for one, other in combinations(said, 2)]))


def _keep(path: Path, samples: Floats, sample_rate_hz: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate_hz)
        file.writeframes((samples * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    sys.exit(main())
