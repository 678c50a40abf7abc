"""What votes weigh: learned from simulated voters whose reliability is known, written, read, refused."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from emotions import Wheel
from services.understanding import reliability
from services.understanding.training.estimate import ABSENT, dawid_skene, evidence, exponents
from services.understanding.training.weights import learn, main, read

CLASSES = 8


def simulated(
    confusions: NDArray[np.float64], messages: int, seed: int = 0, absent: float = 0.0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choices (messages, voters) of independent voters with these confusion matrices, and the truth (messages,)."""
    chance = np.random.default_rng(seed)
    truth = chance.integers(0, CLASSES, messages)
    choices = np.array([[chance.choice(CLASSES, p=voter[each]) for voter in confusions] for each in truth])
    choices[chance.random(choices.shape) < absent] = ABSENT
    return choices, truth


def even(accuracy: float) -> NDArray[np.float64]:
    """The confusion matrix of a voter whose errors fall evenly on the other classes."""
    return np.full((CLASSES, CLASSES), (1 - accuracy) / (CLASSES - 1)) + np.eye(CLASSES) * (
        accuracy - (1 - accuracy) / (CLASSES - 1)
    )


def accuracies(confusions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the diagonal, (voters,)."""
    return np.asarray(np.einsum("vcc->vc", confusions).mean(axis=1))


@pytest.mark.parametrize("known", [1.0, 0.2, 0.0])
def test_the_reliability_of_voters_is_recovered_from_their_votes(known: float) -> None:
    true = np.array([even(0.85), even(0.6), even(0.35), even(0.7)])
    choices, truth = simulated(true, 4000, absent=0.1)
    given = np.where(np.random.default_rng(1).random(len(truth)) < known, truth, ABSENT)
    found = dawid_skene(choices, given, CLASSES)
    assert np.abs(accuracies(found.confusions) - accuracies(true)).max() < 0.03
    assert np.abs(found.confusions - true).max() < 0.12
    # What is concluded on the truth is righter than the best voter.
    assert (found.truths.argmax(axis=1) == truth).mean() > 0.85


def test_a_class_on_which_a_voter_is_unreliable_is_recovered_without_any_truth() -> None:
    weak = even(0.8)
    weak[3] = weak[3, 5] = 0.05
    weak[3, 5] = 1 - 0.05 * 7  # says 5 when it is 3
    found = dawid_skene(*_unlabelled(np.array([weak, even(0.75), even(0.75), even(0.7)])), CLASSES)
    assert found.confusions[0, 3, 5] == pytest.approx(0.65, abs=0.1)
    weights = evidence(found.confusions, 0.05)
    assert weights[0].argmin() in (3, 5)
    assert weights[0, 5] < weights[0, 0] - 0.5


def _unlabelled(confusions: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    choices, truth = simulated(confusions, 4000)
    return choices, np.full_like(truth, ABSENT)


def test_where_all_truths_are_known_they_are_only_counted() -> None:
    choices, truth = np.array([[0], [0], [1], [0]]), np.array([0, 0, 0, 1])
    (confusion,) = dawid_skene(choices, truth, 2).confusions
    assert confusion == pytest.approx(np.array([[2.5, 1.5], [1.5, 0.5]]) / [[4], [2]])


@pytest.mark.parametrize("accuracy", [0.9, 0.6, 0.3])
def test_the_evidence_of_a_vote_is_its_log_odds_where_errors_fall_evenly(accuracy: float) -> None:
    expected = np.log(accuracy * (CLASSES - 1) / (1 - accuracy))
    assert evidence(even(accuracy)[None], 0.05) == pytest.approx(np.full((1, CLASSES), expected))


def test_a_vote_that_speaks_against_its_own_class_weighs_the_least() -> None:
    assert evidence(even(0.05)[None], 0.05) == pytest.approx(np.full((1, CLASSES), 0.05))


def test_how_often_a_class_occurs_does_not_change_its_weight() -> None:
    true = np.array([even(0.7), even(0.5)])
    choices, truth = simulated(true, 8000)
    keep = (truth != 0) | (np.arange(len(truth)) % 4 == 0)
    both = [evidence(dawid_skene(choices[rows], truth[rows], CLASSES).confusions, 0.05) for rows in (keep, slice(None))]
    assert np.abs(both[0] - both[1]).max() < 0.35


def test_the_pool_believes_who_is_calibrated_and_not_who_is_noisy_or_too_sure() -> None:
    chance = np.random.default_rng(3)
    truth = chance.integers(0, CLASSES, 3000)
    known = np.eye(CLASSES)[truth]

    def logs(signal: float, sureness: float) -> NDArray[np.float64]:
        odds = sureness * (signal * (known + chance.normal(0, 1 / signal**0.5, known.shape)))
        return np.asarray(odds - np.log(np.exp(odds).sum(axis=1, keepdims=True)))

    # Under this noise the log-odds of the truth are exactly `signal` times the reading: sureness 1 is calibrated.
    good, brash, noise = logs(3.0, 1.0), logs(3.0, 4.0), chance.normal(0, 1, known.shape)
    found = exponents(np.stack([good, brash, noise], axis=1), known, 0.05)
    assert found == pytest.approx([1.0, 0.25, 0.05], abs=0.12)
    contrary = exponents(np.stack([good, -good], axis=1), known, 0.05)
    assert contrary[1] == 0.05


# The program


def votes_file(path: Path, wheel: Wheel, labelled: bool = True, messages: int = 400) -> Path:
    """Votes of a good and a bad voter, and of one that hardly ever votes."""
    names = list(wheel.classes)
    choices, truth = simulated(np.array([even(0.85), even(0.85), even(0.4)]), messages)
    rows = []
    for number, (chosen, right) in enumerate(zip(choices, truth, strict=True)):
        said = {
            name: {"distribution": {names[each]: 0.8, names[each - 1]: 0.2}, "fine": True}
            for name, each in zip(("good", "fair", "bad"), chosen, strict=True)
        }
        said["face"] = {"distribution": wheel.spread({names[right]: 1.0}), "fine": False}
        votes: dict[str, object] = {**said, "face": said["face"] if number < 5 else None}
        rows.append({"id": str(number), "votes": votes} | ({"label": names[right]} if labelled else {}))
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("labelled", [True, False])
def test_the_program_writes_weights_that_the_panel_reads(
    tmp_path: Path, wheel: Wheel, labelled: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    votes, out = votes_file(tmp_path / "votes.jsonl", wheel, labelled), tmp_path / "test-1.toml"
    assert main(["--votes", str(votes), "--out", str(out)]) == 0
    weights = reliability.load(str(out), wheel)
    assert weights.version == "test-1"
    assert set(weights.votes) == set(weights.pool) == {"good", "fair", "bad"}
    for face_class in wheel.classes:
        assert weights.of_vote("good", face_class) > weights.of_vote("bad", face_class) > 0
    assert weights.of_pool("good") > weights.of_pool("bad")
    # Who is not in the table weighs what the weakest does, class by class.
    for face_class in wheel.classes:
        assert weights.of_vote("face", face_class) == min(row[face_class] for row in weights.votes.values())
    assert weights.of_pool("face") == weights.of_pool("bad")
    text = out.read_text("utf-8")
    assert f'votes_sha256 = "{hashlib.sha256(votes.read_bytes()).hexdigest()}"' in text
    assert f"messages = 400\nlabelled = {400 if labelled else 0}\n" in text
    said = capsys.readouterr().out
    assert "face         left out: fewer than 30 votes" in said


def test_a_version_never_changes(tmp_path: Path, wheel: Wheel, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "test-1.toml"
    out.write_text("as it was", "utf-8")
    assert main(["--votes", str(votes_file(tmp_path / "votes.jsonl", wheel)), "--out", str(out)]) == 1
    assert out.read_text("utf-8") == "as it was"
    assert "choose another name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("nowhere/test-1.toml", "there is no folder "),
        ("", "names no table"),
        (".toml", "names no table"),
    ],
)
def test_a_table_that_cannot_be_written_is_told_before_anything_is_learned(
    tmp_path: Path, out: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--votes", str(tmp_path / "votes.jsonl"), "--out", f"{tmp_path}/{out}"]) == 1
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["", "../test-1", "a/b", "a b", "-"])
def test_a_bad_name_of_a_table_is_refused(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--votes", str(tmp_path / "votes.jsonl"), f"--out={name}"]) == 1
    assert f"--out {name!r} names no table" in capsys.readouterr().err


@pytest.mark.parametrize("votes", ["none.jsonl", "."])
def test_votes_that_cannot_be_read_are_named(tmp_path: Path, votes: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / votes
    assert main(["--votes", str(path), "--out", str(tmp_path / "test-1.toml")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{path}: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1: "),
        ('{"id": "1"}', "line 1: 'votes'"),
        ('{"id": "1", "label": "enraged", "votes": {}}', "'enraged' is not an emotion label"),
        (
            '{"id": "1", "votes": {"a": {"distribution": {"sad": 0.5}, "fine": true}}}',
            "line 1: the vote of a: its probabilities sum to 0.5, not to 1",
        ),
        (
            '{"id": "1", "votes": {"a": {"distribution": {"enraged": 1}, "fine": true}}}',
            "line 1: the vote of a: its distribution holds 'enraged', no label of the wheel",
        ),
        ('{"id": "1", "votes": {"a": {"distribution": {"sad": 1}}}}', "line 1: 'fine'"),
        ('{"id": "1", "votes": {"a": {"distribution": {"sad": 1}, "fine": true}}}', "no voter gave 30 votes: {'a': 1}"),
    ],
)
def test_votes_that_cannot_be_learned_from_are_refused(
    tmp_path: Path, line: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    votes, out = tmp_path / "votes.jsonl", tmp_path / "test-1.toml"
    votes.write_text(line + "\n", "utf-8")
    assert main(["--votes", str(votes), "--out", str(out)]) == 1
    assert problem in capsys.readouterr().err
    assert not out.exists()


def test_a_voter_that_abstains_on_a_message_tells_nothing_about_it(wheel: Wheel) -> None:
    row = {"id": "1", "label": "sad", "votes": {"a": {"distribution": {"lonely": 1.0}, "fine": True}, "b": None}}
    (message,) = read([json.dumps(row)], wheel)
    assert (message.truth, set(message.ballots), message.ballots["a"].choice) == ("sad", {"a"}, "sad")
    learned = learn([message] * 30, wheel)
    assert (learned.votes, learned.accuracy) == ({"a": 30}, {"a": 1.0})


# The table

TABLE = """
version = "test-1"
ontology_hash = "HASH"
[default]
pool = 0.2
[default.votes]
DEFAULTS[voters.text]
pool = 0.9
[voters.text.votes]
"""


def table(wheel: Wheel) -> str:
    defaults, votes = ("".join(f"{name} = {weight}\n" for name in wheel.classes) for weight in (0.7, 1.5))
    return TABLE.replace("HASH", wheel.digest).replace("DEFAULTS", defaults) + votes


def test_a_table_says_what_each_voter_weighs_and_what_the_others_do(wheel: Wheel) -> None:
    weights = reliability.parse(table(wheel), wheel)
    assert (weights.version, weights.of_vote("text", "sad"), weights.of_pool("text")) == ("test-1", 1.5, 0.9)
    assert (weights.of_vote("new", "sad"), weights.of_pool("new")) == (0.7, 0.2)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("sad = 1.5", "", "they are incomplete: 'sad'"),
        ("sad = 1.5", "sad = 0", "0 is no weight; use a number from 0.001 to 1000"),
        ("sad = 1.5", "sad = nan", "nan is no weight"),
        ("sad = 1.5", "sad = true", "True is no weight"),
        ('"test-1"', "test-1", "Invalid value"),
        ("[default", "[other", "they are incomplete: 'default'"),
        ("sad = 0.7", "", "they are incomplete: 'sad'"),
        ("sad = 0.7", "sad = -1", "-1 is no weight"),
    ],
)
def test_a_table_that_is_none_is_refused(wheel: Wheel, tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "test-1.toml"
    path.write_text(table(wheel).replace(old, new), "utf-8")
    with pytest.raises(ValueError, match=problem) as refused:
        reliability.load(str(path), wheel)
    assert str(path) in str(refused.value)


def test_a_table_for_another_wheel_is_refused(wheel: Wheel) -> None:
    text = table(wheel).replace(wheel.digest, "0" * 64)
    with pytest.raises(ValueError, match=f"emotion wheel 000000000000, the panel's is {wheel.digest[:12]}; learn them"):
        reliability.parse(text, wheel)


def test_a_table_that_does_not_ship_is_named_with_those_that_do(wheel: Wheel) -> None:
    with pytest.raises(FileNotFoundError, match=r"weights 'nothing': .*nothing\.toml is no file; shipped tables: "):
        reliability.load("nothing", wheel)


def test_the_tables_that_ship_are_for_this_wheel(wheel: Wheel) -> None:
    for path in reliability.FOLDER.glob("*.toml"):
        assert reliability.load(path.stem, wheel).version == path.stem


def test_in_the_tables_that_ship_a_voter_that_is_not_listed_never_weighs_more_than_one_that_is(wheel: Wheel) -> None:
    for path in reliability.FOLDER.glob("*.toml"):
        weights = reliability.load(path.stem, wheel)
        for voter, row in weights.votes.items():
            assert weights.of_pool("new") <= weights.of_pool(voter)
            for face_class, weight in row.items():
                assert weights.of_vote("new", face_class) <= weight, (path.stem, voter, face_class)
