"""Print what the risk screen finds of each kind, plain and veiled, and how often it is wrong.

    python -m benchmarks.risk [--of messages|seen|locked] [--speech] [--talk FILE.csv]

The messages are those of a folder of `benchmarks/risk`: `messages` and `seen` to set bars on, `locked` for one look at
the end of a change; by five authors, of whom all but the first had read neither the others' nor what is trained on.
With `--speech` each is spoken by the embedded voice and transcribed by the embedded recogniser first. `--talk` adds a
CSV of ordinary talk with a column `situation`: the share of it that is taken for a risk (some of it is one).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path

from services.understanding.reader import MessageReader
from services.understanding.risk.classifier import Classifier
from services.understanding.risk.domain import Kind, Severity
from services.understanding.risk.screen import RiskScreen
from services.understanding.risk.second import SecondOpinion
from services.understanding.tones import store
from services.understanding.training.risk_messages import Labelled, read

FOLDERS = ("messages", "seen", "locked")


def spoken() -> Callable[[str], str]:
    """Return a function that has a text spoken by the embedded voice and written down by the embedded recogniser."""
    from faster_whisper import WhisperModel

    from benchmarks.hearing import joined, people
    from perception.voice import resample
    from services.tts.backends import hibari
    from services.tts.domain import Delivery

    backend, person = hibari.create(), people(["anna"])[0]
    voice = person.voice(backend)
    ear = WhisperModel(".models/whisper-tiny-en", device="cpu", compute_type="int8", cpu_threads=1)

    def heard(text: str) -> str:
        speech = joined(list(backend.speak([text], voice, Delivery("default", 0.0))))
        segments, _ = ear.transcribe(resample(speech, backend.sample_rate_hz, 16_000), language="en", beam_size=1)
        return " ".join(segment.text.strip() for segment in segments)

    return heard


def table(screen: RiskScreen, messages: list[Labelled]) -> None:
    """Print the shares that are found, by kind and form, of what is found the share of the right kind.

    Of wrong alarms, the share that only asks.
    """
    found = [(message, screen.find(message.text)) for message in messages]
    print(f"{'':16}{'plain':>14}{'veiled':>14}{'look-alikes':>14}{'right kind':>14}{'wrong, asked':>14}")
    for kind in (*Kind, None):
        cells = []
        for form in ("plain", "veiled", "lookalike"):
            group = [risk for one, risk in found if one.form == form and kind in (None, one.kind, one.near)]
            cells.append(_share(sum(risk is not None for risk in group), len(group)))
        risky = [(one, risk) for one, risk in found if one.kind != "none" and kind in (None, one.kind) and risk]
        cells.append(_share(sum(risk.kind == one.kind for one, risk in risky), len(risky)))
        asked = [risk for one, risk in found if one.kind == "none" and kind in (None, one.near) and risk]
        cells.append(_share(sum(not risk.is_sure for risk in asked), len(asked)))
        print(f"{kind or 'all':16}" + "".join(f"{cell:>14}" for cell in cells))
    everyday = [risk for one, risk in found if one.form == "everyday"]
    print(f"everyday: {_share(sum(risk is not None for risk in everyday), len(everyday))} taken for a risk")
    for form in ("plain", "veiled"):
        grades = [risk.severity for one, risk in found if one.form == form and risk]
        told = ", ".join(f"{grade.name.lower()} {grades.count(grade)}" for grade in Severity)
        print(f"severity of {form} ones: {told}")


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} {part / whole:.0%}" if whole else "-"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.risk", description=__doc__)
    parser.add_argument("--of", choices=FOLDERS, default="messages", help="`locked` is for one look")
    parser.add_argument("--speech", action="store_true", help="speak the messages, and screen what is heard")
    parser.add_argument("--talk", type=Path, help="CSV of ordinary talk with a column `situation`")
    arguments = parser.parse_args()
    reader = MessageReader(Path(".models"), store.read(), [])
    screen = RiskScreen(SecondOpinion(reader, Classifier(Path(".models"))))
    messages = read(Path(__file__).with_name(arguments.of))
    if arguments.speech:
        hear = spoken()
        messages = [Labelled(hear(one.text), one.kind, one.form, one.severity, one.near) for one in messages]
    start_s = time.perf_counter()
    table(screen, messages)
    print(f"{(time.perf_counter() - start_s) / len(messages) * 1000:.1f} ms a message, one thread")
    if arguments.talk:
        with arguments.talk.open(newline="", encoding="utf-8") as file:
            texts = [row["situation"] for row in csv.DictReader(file)]
        alarms = [(risk, text) for text in texts if (risk := screen.find(text))]
        print(f"ordinary talk: {_share(len(alarms), len(texts))} taken for a risk")
        for risk, text in alarms[:: max(1, len(alarms) // 20)]:
            print(f"  {risk.kind} {risk.severity.name.lower()} {risk.confidence:.2f}: {text[:120]}")


if __name__ == "__main__":
    main()
