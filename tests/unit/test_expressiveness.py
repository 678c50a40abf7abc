"""How the benchmark of finished replies measures."""

import os
import pickle
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from benchmarks.expressiveness import agreement, controls, lips, tables
from benchmarks.expressiveness.controls import Known
from benchmarks.expressiveness.faces import Sight, faces
from benchmarks.expressiveness.judges import CLASSES, Facex, cut_out, read_arrays, rise, strongest
from benchmarks.expressiveness.takes import Take
from perception.face import Face, FaceBox
from perception.speaker import SpeakerReader, likeness
from services.memory.domain import ReferenceKind
from services.memory.ready import file_of, ready_identities
from services.tts.recordings import read_voice
from services.video.domain import VisemeSpan
from services.video.encoding import FragmentedMp4

FPS = 25
MODELS = Path(__file__).parents[2] / ".models"


def face(right: tuple[float, float], left: tuple[float, float], gap_px: float = 0.0) -> Face:
    landmarks = np.zeros((478, 3), np.float32)
    landmarks[468, :2], landmarks[473, :2] = right, left
    landmarks[14, 1] = gap_px
    return Face(FaceBox(0, 0, 1, 1, 1.0, np.zeros((6, 2), np.float32)), 1.0, landmarks, {})


def opening(frames: int = 80) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(np.abs(np.sin(np.arange(frames) * 0.9)) * np.linspace(2, 6, frames))


@pytest.mark.parametrize("late", [-3, 0, 2])
def test_a_mouth_that_is_late_is_found_late_by_as_many_frames(late: int) -> None:
    sound = opening()
    correlation, lag = lips.best_lag(np.roll(sound, late)[6:-6], sound[6:-6])
    assert lag == late
    assert correlation > 0.99


def test_the_level_is_taken_during_each_picture() -> None:
    tone = np.sin(np.arange(24_000) * 0.3).astype(np.float32)
    tone[:12_000] *= 0.1
    levels = lips.levels_db(tone, 24_000, 25, FPS)
    assert np.allclose(levels[:12], -20, atol=0.3)
    assert np.allclose(levels[13:], 0, atol=0.3)


def test_silence_and_pictures_after_the_sound_are_at_the_floor() -> None:
    samples = np.concatenate([np.ones(960, np.float32), np.zeros(960, np.float32)])
    assert lips.levels_db(samples, 24_000, 4, FPS).tolist() == [0, -lips.QUIET_DB, -lips.QUIET_DB, -lips.QUIET_DB]


def test_a_vowel_asks_for_an_open_mouth_and_glides_in_and_out() -> None:
    asked = lips.expected([VisemeSpan("PP", 0, 0.4), VisemeSpan("aa", 0.4, 0.4), VisemeSpan("PP", 0.8, 0.4)], 30, FPS)
    assert asked[:8].max() == 0
    assert asked[15] == pytest.approx(1, abs=0.01)
    assert 0 < asked[9] < asked[10] < asked[12]


def test_closures_are_counted_closed_only_where_the_lips_meet() -> None:
    visemes = [VisemeSpan("PP", 0.2, 0.1), VisemeSpan("aa", 0.4, 0.2), VisemeSpan("PP", 0.8, 0.1)]
    gaps = np.full(30, 8.0)
    gaps[5:8] = 0.5
    found = lips.sync(gaps + opening(30) / 100, opening(30), visemes, FPS, rest_mm=0.4)
    assert (found.closures, found.closed, found.vowels, found.closed_vowels) == (2, 1, 1, 0)


def test_the_gap_is_measured_in_the_distance_of_the_irises() -> None:
    assert lips.gap_mm(face((100, 100), (163, 100), gap_px=5)) == pytest.approx(5)
    assert lips.gap_mm(face((100, 100), (226, 100), gap_px=5)) == pytest.approx(2.5)


def test_a_face_is_cut_out_upright_whichever_way_it_is_turned() -> None:
    image = np.full((400, 400, 3), 90, np.uint8)
    right, left, below = np.array([160.0, 200.0]), np.array([240.0, 200.0]), np.array([200.0, 260.0])
    cv2.circle(image, (200, 260), 9, (250, 250, 250), -1)
    upright = cut_out(image, face((160, 200), (240, 200)))
    turn = cv2.getRotationMatrix2D((200, 200), 30, 1)
    turned = np.asarray(cv2.warpAffine(image, turn, (400, 400), borderValue=(90, 90, 90)), np.uint8)
    (rx, ry), (lx, ly) = (turn @ [*point, 1] for point in (right, left))
    again = cut_out(turned, face((rx, ry), (lx, ly)))
    assert upright.shape == (Facex.SIDE_PX, Facex.SIDE_PX)
    row, column = np.unravel_index(int(cv2.blur(upright, (9, 9)).argmax()), upright.shape)
    scale = Facex.SIDE_PX / (2.88 * 80)
    assert column == pytest.approx(100, abs=4)
    assert row == pytest.approx(100 + (below[1] - 200 - 0.27 * 80) * scale, abs=4)
    assert np.abs(upright.astype(int) - again).mean() < 2


def test_what_rose_most_is_found_also_on_a_face_that_looks_sad_at_rest() -> None:
    plain = np.array([0.1, 0.01, 0.01, 0.01, 0.02, 0.84, 0.01])
    shown = np.array([0.05, 0.2, 0.01, 0.01, 0.02, 0.70, 0.01])
    assert strongest(shown) == "sad"
    assert strongest(rise(shown, plain)) == "happy"


def test_a_judge_that_is_certain_of_nothing_does_not_make_odds_endless() -> None:
    sure, unsure = np.eye(len(CLASSES))[1], np.full(len(CLASSES), 1 / len(CLASSES))
    assert np.isfinite(rise(sure, unsure)).all()
    assert np.isfinite(rise(unsure, sure)).all()


TENSOR = (
    b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQK\x01K\x02K\x02\x86K\x01K\x02\x86\x89NtRs."
)
"""`{"w": tensor}` as PyTorch pickles it: of storage "0", from its second value on, 2 x 2, strides 1 and 2."""


def weights_file(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", pickled)
        archive.writestr("net/data/0", np.arange(6, dtype="<f4").tobytes())
    return path


def test_weights_of_pytorch_are_read_without_it(tmp_path: Path) -> None:
    (array,) = read_arrays(weights_file(tmp_path / "net.pth", TENSOR)).values()
    assert array.tolist() == [[1, 3], [2, 4]]


def test_a_file_of_weights_that_would_run_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"posix\.getcwd has no place in a file of weights"):
        read_arrays(weights_file(tmp_path / "net.pth", pickle.dumps({"w": Command()}, protocol=2)))


class Command:
    """Becomes a call that a file of weights has no business to make."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.getcwd, ()


def votes(**of: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Probabilities: what is given, and the rest shared by the other classes."""
    rest = (1 - sum(of.values())) / (len(CLASSES) - len(of))
    return np.array([of.get(name, rest) for name in CLASSES])


def sight(identity: str, asked: str, intensity: float, seen: str, at: float) -> Sight:
    """A film in which one class is seen, and whose face lies `at` a place on a line."""
    visemes = (VisemeSpan("PP", 0, 0.4), VisemeSpan("aa", 0.4, 0.8))
    take = Take(identity, asked, intensity, f"A line for {asked}.", np.zeros(0, np.int16), 24_000, visemes, b"")
    gaps = lips.expected(visemes, 30, FPS) * 8 + opening(30) / 100
    found = lips.sync(gaps, gaps, visemes, FPS, rest_mm=0.0)
    return Sight(take, {"judge": votes(**{seen: 0.9})}, np.full((3, 4), at), gaps, gaps, found)


FILMS = [
    sight("ann", "happy", 0.0, "sad", 0.0),
    sight("ann", "happy", 1.0, "happy", 0.02),
    sight("ann", "sad", 0.0, "neutral", 0.0),
    sight("ann", "sad", 1.0, "angry", 0.3),
    sight("bob", "happy", 0.0, "neutral", 1.0),
    sight("bob", "happy", 1.0, "happy", 1.0),
    sight("bob", "sad", 0.0, "sad", 1.0),
    sight("bob", "sad", 1.0, "sad", 1.0),
]
"""Two faces; Bob looks sad when he says his sad line plainly, so there nothing rises."""


def row(output: str, name: str) -> list[str]:
    return next(line for line in output.splitlines() if line.startswith(f"{name} ")).split()


def test_an_emotion_counts_as_shown_when_it_rose_above_the_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_seen(FILMS, [1.0])
    output = capsys.readouterr().out
    assert row(output, "happy")[1:3] == ["100", "%"]
    assert row(output, "sad")[1:3] == ["0", "%"]
    assert row(output, "all") == ["all", "50", "%"]
    assert row(output, "outright") == ["outright", "75", "%"]


def test_confusions_are_counted_where_they_were_seen(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_confusion(FILMS, "judge", 1.0)
    output = capsys.readouterr().out
    assert row(output, "happy") == ["happy", "2", ".", ".", ".", ".", ".", "."]
    assert row(output, "sad")[3] == "1"  # angry


def test_a_film_belongs_to_the_reference_whose_cosine_is_highest(capsys: pytest.CaptureFixture[str]) -> None:
    references = {"ann": np.array([1.0, 0, 0]), "bob": np.array([0, 2.0, 0]), "cat": np.array([0, 0.6, 0.8])}
    films = {
        ("ann", 0.0): np.array([[3.0, 0, 0], [0.8, 0.6, 0]]),
        ("ann", 1.0): np.array([[0.6, 0.8, 0]]),
        ("bob", 0.0): np.array([[0, 1.0, 0]]),
        ("cat", 1.0): np.array([[0, 1.2, 1.6]]),
    }
    tables.print_likeness("face", films, references)
    output = capsys.readouterr().out
    assert row(output, "ann")[1:] == ["0.80", "0.60", "0.37", "bob", "0.47", "2", "of", "3"]
    assert row(output, "bob")[1:] == ["1.00", "1.00", "0.30", "cat", "0.60", "1", "of", "1"]
    assert "two references: 0.20 on average, 0.60 at the closest (bob and cat)" in output
    assert "own by intensity: 0: 0.93, 1: 0.80" in output


def test_faces_are_measured_by_distance_too(capsys: pytest.CaptureFixture[str]) -> None:
    portraits = {"ann": np.zeros(4), "bob": np.full(4, 0.5)}
    tables.print_distances(faces(FILMS), portraits)
    output = capsys.readouterr().out
    assert "own by intensity 0: 0.50, 1: 0.66;" in output
    assert "worst 1.00; two portraits 1.00 on average, 1.00 at the closest" in output


def test_the_voice_is_embedded_from_the_sound_of_the_finished_film() -> None:
    (identity,) = (each for each in ready_identities() if each.id == "anna")
    reader = SpeakerReader(MODELS / "ge2e" / "pretrained.pt")
    recording = read_voice(file_of(identity, ReferenceKind.VOICE), "voice")
    rate_hz = recording.sample_rate_hz
    file = FragmentedMp4(64, FPS, rate_hz)
    samples = (recording.samples[: 3 * rate_hz] * 32767).astype(np.int16)
    pictures = (np.zeros((64, 64, 3), np.uint8) for _ in range(3 * FPS))
    mp4 = b"".join([*file.add((), samples), *file.add(pictures, samples[:0]), *file.finish()])
    take = Take("anna", "happy", 1.0, "", np.zeros(0, np.int16), rate_hz, (), mp4)

    found = agreement.speakers([take, take], reader)

    assert found["anna", 1.0].shape == (2, 256)
    own = reader.embed(recording.samples[: 3 * rate_hz], rate_hz)
    assert likeness(found["anna", 1.0][0].astype(np.float32), own) > 0.97


def test_lips_are_told_by_identity_and_beside_chance(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_lips(FILMS)
    output = capsys.readouterr().out
    assert row(output, "ann") == ["ann", "1.00", "(+0)", "1.00", "(+0)", "4", "of", "4", "0", "of", "4"]
    assert row(output, "by")[:2] == ["by", "chance"]


def test_the_judges_are_judged_on_pictures_whose_expression_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    known = [
        Known("one", "neutral", {"judge": votes(neutral=0.5, sad=0.4)}),
        Known("one", "happy", {"judge": votes(neutral=0.5, happy=0.3)}),
        Known("one", "sad", {"judge": votes(fear=0.8)}),
    ]
    tables.print_controls({"ann": {"judge": votes(neutral=0.7)}}, known)
    output = capsys.readouterr().out
    assert row(output, "ann") == ["ann", "neutral", "0.70"]
    assert "judge on 2 modelled expressions of 1 other heads: 0 % right outright, 50 % by what changed" in output
    assert "sad seen as fear" in output


def test_each_head_of_the_known_pictures_shows_every_class_of_the_judges() -> None:
    shown: dict[str, set[str]] = {}
    for path in controls.FOLDER.glob("*.jpg"):
        head, name = path.stem.split("-")
        shown.setdefault(head, set()).add(name)
    assert len(shown) >= 2
    assert all(names == set(CLASSES) for names in shown.values())
