"""Speakers are told apart with the genuine weights, read without PyTorch."""

import pickle
import wave
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from perception import checkpoint
from perception.speaker import RATE_HZ, SpeakerReader, likeness
from perception.voice import Floats, resample

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / ".models" / "ge2e" / "pretrained.pt"
NAMES = ("anna", "kenji", "ingrid", "marcus")


@pytest.fixture(scope="module")
def reader() -> SpeakerReader:
    return SpeakerReader(WEIGHTS)


def hum(pitch_hz: float, brightness: float) -> Floats:
    """Three seconds of a steady voice without a word: harmonics that tremble, the higher the softer; -20 dBFS."""
    seconds = np.arange(3 * RATE_HZ) / RATE_HZ
    turns = pitch_hz * (seconds + 0.002 * np.sin(2 * np.pi * 5 * seconds))
    partials = [brightness**index * np.sin(2 * np.pi * (index + 1) * turns) for index in range(20)]
    whole = np.sum(partials, axis=0)
    return np.asarray(0.1 * whole / np.sqrt(np.mean(whole**2)), np.float32)


def recording(name: str) -> tuple[Floats, int]:
    with wave.open(str(ROOT / "services" / "memory" / "identities" / name / "voice.wav")) as file:
        return np.asarray(np.frombuffer(file.readframes(-1), "<i2") / 32768, np.float32), file.getframerate()


def test_the_numbers_are_those_of_the_network_s_authors(reader: SpeakerReader) -> None:
    # `VoiceEncoder.embed_utterance` of Resemblyzer 0.1.4 with PyTorch 2.13 and librosa 0.11, of the same sound.
    expected = np.load(Path(__file__).parent / "golden" / "speaker_hum.npy")
    assert np.abs(reader.embed(hum(110, 0.5), RATE_HZ) - expected).max() < 1e-4


def test_halves_of_a_recording_are_more_alike_than_any_two_people(reader: SpeakerReader) -> None:
    halves = {}
    for name in NAMES:
        samples, rate_hz = recording(name)
        middle = len(samples) // 2
        halves[name] = [reader.embed(part, rate_hz) for part in (samples[:middle], samples[middle:])]
    for name in NAMES:
        own = likeness(*halves[name])
        assert own > 0.75
        assert all(own > likeness(halves[name][0], halves[other][1]) for other in NAMES if other != name)


def test_loudness_rate_and_silence_do_not_change_who_it_is(reader: SpeakerReader) -> None:
    samples, rate_hz = recording("anna")
    quiet = np.asarray(samples / 8, np.float32)
    plain = reader.embed(samples, rate_hz)
    silent = np.zeros(2 * rate_hz, np.float32)
    assert likeness(plain, reader.embed(quiet, rate_hz)) > 0.999
    assert likeness(plain, reader.embed(resample(samples, rate_hz, 48_000), 48_000)) > 0.999
    assert likeness(plain, reader.embed(np.concatenate([silent, samples, silent]), rate_hz)) > 0.97


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        (np.zeros(RATE_HZ, np.float32), "holds 0.00 s of sound; at least 0.5 s"),
        (hum(110, 0.5)[:6000], "holds 0.3. s of sound"),
        (np.zeros((2, RATE_HZ), np.float32), r"shape \(2, 16000\); it must be mono"),
        (np.zeros(0, np.float32), "holds 0.00 s"),
    ],
    ids=["silence", "too short", "stereo", "nothing"],
)
def test_a_recording_without_a_voice_is_refused(reader: SpeakerReader, samples: Floats, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        reader.embed(samples, RATE_HZ)


def test_missing_weights_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is missing: run `make models WITH=kokoro`"):
        SpeakerReader(tmp_path / "none.pt")


def stored(content: object, *storages: list[float]) -> bytes:
    """A checkpoint file; storages are named 0, 1, … ."""
    parts = [pickle.dumps(part, protocol=2) for part in (1, 1001, {}, content, [str(i) for i in range(len(storages))])]
    raw = [len(each).to_bytes(8, "little") + np.array(each, "<f4").tobytes() for each in storages]
    return b"".join(parts + raw)


def test_a_checkpoint_that_names_anything_but_tensors_is_refused_unrun(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (str(tmp_path / "sprung"),)

    path = tmp_path / "bad.pt"
    path.write_bytes(stored(OrderedDict(model_state=Trap())))
    with pytest.raises(ValueError, match="only tensors of float32 can be read"):
        checkpoint.read(path, "model_state")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"no pickle", stored({"other": {}}), stored([]), WEIGHTS.read_bytes()[:5000]],
    ids=["empty", "text", "another part", "no parts", "cut short"],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.pt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.pt is no checkpoint with a part 'model_state'"):
        checkpoint.read(path, "model_state")


def test_another_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    path.write_bytes(stored({"model_state": OrderedDict()}))
    with pytest.raises(ValueError, match=r"is no GE2E network: it has no 'lstm\.weight_ih_l0'"):
        SpeakerReader(path)
