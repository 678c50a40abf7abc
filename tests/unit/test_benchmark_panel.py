"""The panel's benchmark: its statistics, its file of votes, and how it counts."""

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import emotions
from benchmarks.panel import liars, outcomes, tables, votes
from benchmarks.panel.__main__ import main
from benchmarks.panel.latency import Replayed, Waited, waited
from benchmarks.panel.outcomes import Outcome
from benchmarks.panel.statistics import interval, mcnemar
from benchmarks.panel.votes import InputError, Row, Said, Situation
from services.mllm.domain import Level, Message, Modality, Prediction
from services.understanding.rules import rule_of
from services.understanding.training import weights
from tests.track_records import draw, right

WHEEL = emotions.load()
SAD = Said({"sad": 0.7, "happy": 0.3}, fine=True, cost_ms=0.0)
HAPPY = Said({"joyful": 0.9, "sad": 0.1}, fine=True, cost_ms=0.0)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    [(0, 0, 1.0), (5, 5, 1.0), (10, 0, 2 / 1024), (0, 10, 2 / 1024), (6, 16, 0.052479), (1, 7, 0.0703125)],
)
def test_mcnemar_is_a_coin_on_the_messages_that_only_one_got_right(only_first: int, only_second: int, p: float) -> None:
    both = 40
    first = np.array([True] * only_first + [False] * only_second + [True] * both)
    second = np.array([False] * only_first + [True] * only_second + [True] * both)
    found = mcnemar(first, second)
    assert (found.only_first, found.only_second) == (only_first, only_second)
    assert found.p == pytest.approx(p, rel=1e-4)


@pytest.mark.parametrize(("right", "of"), [(200, 400), (75, 100), (2000, 2770)])
def test_the_bootstrap_interval_is_that_of_the_normal_approximation_where_that_holds(right: int, of: int) -> None:
    share = right / of
    low, high = interval(np.arange(of) < right)
    spread = 1.96 * np.sqrt(share * (1 - share) / of)
    assert (low, high) == pytest.approx((share - spread, share + spread), abs=0.012)


def test_the_interval_of_those_who_never_err_is_a_point() -> None:
    assert interval(np.ones(50, bool)) == (1.0, 1.0)


def test_the_halves_are_apart_and_a_sample_is_drawn_by_the_seed() -> None:
    everything = [Situation(str(number), "sad", "") for number in range(101)]
    first, second = (votes.sample(everything, half, None, seed=3) for half in (1, 2))
    assert len(first) == 50
    assert {each.id for each in first} | {each.id for each in second} == {each.id for each in everything}
    assert not {each.id for each in first} & {each.id for each in second}
    assert votes.sample(everything, 1, 7, seed=3) == first[:7]
    assert votes.sample(everything, 1, 7, seed=4) != first[:7]


def test_a_voter_is_asked_and_what_it_said_survives_the_file(tmp_path: Path) -> None:
    def by_class(message: Message) -> Prediction:
        return Prediction(Level.CLASS, {"sad": 0.75, "fear": 0.25}, frozenset({Modality.TEXT}), "classified")

    def silent(message: Message) -> Prediction:
        return Prediction(Level.LABEL, {}, frozenset(), "classified", abstained="nothing to see")

    asked = {"coarse": by_class, "silent": silent}
    (row,) = votes.cast([Situation("7", "lonely", "Nobody calls.")], asked, WHEEL)
    path = tmp_path / "votes.jsonl"
    path.write_text(votes.line(row) + "\n", "utf-8")
    (again,) = votes.read_votes(path, WHEEL)
    said = again.votes["coarse"]
    assert (again.id, again.label, again.votes["silent"]) == ("7", "lonely", None)
    assert said
    assert not said.fine
    assert WHEEL.gather(said.distribution)["sad"] == pytest.approx(0.75, abs=1e-4)
    (learned_from,) = weights.read(path.read_text("utf-8").splitlines(), WHEEL)
    assert learned_from.truth == "sad"
    assert set(learned_from.ballots) == {"coarse"}


def test_a_file_whose_lines_have_different_voters_is_refused(tmp_path: Path) -> None:
    lines = [votes.line(Row(voter, "sad", {voter: SAD})) for voter in ("one", "other")]
    path = tmp_path / "votes.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(InputError, match="line 2: has other voters"):
        votes.read_votes(path, WHEEL)


def test_an_unknown_emotion_in_the_csv_is_named(tmp_path: Path) -> None:
    path = tmp_path / "situations.csv"
    path.write_text("emotion,situation\npeckish,I want a bun.\n", "utf-8")
    with pytest.raises(InputError, match="line 2: 'peckish' is not an emotion label"):
        votes.read_csv(path, WHEEL)


ROWS = [
    Row("0", "sad", {"one": SAD, "two": HAPPY, "three": SAD}),
    Row("1", "lonely", {"one": SAD, "two": HAPPY, "three": None}),
    Row("2", "joyful", {"one": None, "two": HAPPY, "three": None}),
    Row("3", "sad", {"one": SAD, "two": None, "three": None}),
]


def test_a_voter_is_right_by_class_and_by_label_and_wrong_when_it_abstains() -> None:
    one, two = (outcomes.of_voter(name, ROWS, WHEEL) for name in ("one", "two"))
    assert one.hit.tolist() == [True, True, False, True]
    assert one.label.tolist() == [True, False, False, True]
    assert (one.abstained, two.abstained) == (1, 1)
    assert two.hit.tolist() == [False, False, True, False]


def test_what_a_voter_costs_is_the_mean_of_its_answers() -> None:
    rows = [Row(str(cost), "sad", {"one": replace(SAD, cost_ms=cost) if cost else None}) for cost in (10.0, 30.0, None)]
    assert outcomes.of_voter("one", rows, WHEEL).cost_ms == 20
    assert outcomes.of_voter("one", rows[2:], WHEEL).cost_ms == 0


def test_a_rule_is_right_as_the_panel_decides() -> None:
    rule = rule_of("majority", WHEEL)
    panel = outcomes.of_rule("majority", rule, ["one", "two", "three"], ROWS, WHEEL)
    # Two to one for sad; then a tie, which goes to the surer vote; then one vote alone.
    assert panel.hit.tolist() == [True, False, True, True]
    assert panel.label.tolist() == [True, False, True, True]
    assert outcomes.of_rule("majority", rule, ["three"], ROWS, WHEEL).abstained == 3


def test_the_commonest_class_and_label_are_those_of_the_messages() -> None:
    always = outcomes.of_commonest(ROWS, WHEEL)
    assert always.name == "always sad"
    assert always.hit.tolist() == [True, True, False, True]
    assert always.label.tolist() == [True, False, False, True]


def test_deciding_early_and_waiting_for_all_decide_the_same() -> None:
    rows = [Row(str(number), "sad", {"one": SAD, "two": SAD, "slow": None}) for number in range(3)]
    fine = {"one": True, "two": True, "slow": False}
    rule = rule_of("majority", WHEEL)
    early, all_ = (asyncio.run(waited(rows, fine, "slow", 0.05, rule, WHEEL, early=choice)) for choice in (True, False))
    assert early.labels == all_.labels == ("sad", "sad", "sad")
    assert (early.early, all_.early) == (3, 0)
    assert len(early.seconds) == 3


def test_a_replayed_voter_says_what_it_said() -> None:
    replayed = Replayed("one", fine=True, delay_s=None)

    async def ask() -> object:
        return (await replayed.vote(ROWS[0], 1.0)).distribution

    assert asyncio.run(ask()) == SAD.distribution


def test_a_line_of_votes_is_json_with_id_truth_and_voters() -> None:
    content = json.loads(votes.line(ROWS[2]))
    assert content["votes"]["one"] is None
    assert content["votes"]["two"] == {"distribution": HAPPY.distribution, "fine": True, "cost_ms": 0.0}


# The tables


def outcome(name: str, hit: list[int], label: list[int]) -> Outcome:
    return Outcome(name, np.array(hit, bool), np.array(label, bool), abstained=0)


def test_a_comparison_is_of_the_classes_and_says_who_is_better(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = outcome("good", [1] * 8, [0] * 8), outcome("bad", [0] * 8, [1] * 8)
    tables.print_comparisons([good, bad], [good])
    tables.print_comparisons([good], [bad])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  good against good: +0.0 points, 0 to 0, p = 1, no clear difference",
        "  bad against good: -100.0 points, 0 to 8, p = 0.0078, worse",
        "",
        "McNemar, exact, two-sided, on the classes",
        "  good against bad: +100.0 points, 8 to 0, p = 0.0078, better",
    ]


def test_waiting_is_told_with_both_quantiles_and_whether_all_decided_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    early, all_ = Waited((1.0, 2.0), 1, ("sad", "sad")), Waited((3.0, 5.0), 0, ("sad", "sad"))
    tables.print_waits([("one", early, all_), ("other", early, replace(all_, labels=("sad", "happy")))])
    *_, one, other = capsys.readouterr().out.splitlines()
    assert one.split() == ["one", "1.500", "1.950", "4.000", "4.900", "50", "%"]
    assert other.endswith("50 %  DECIDED DIFFERENTLY")


# The program


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs the program, which has to end with one line; returns that."""
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("benchmarks.panel: ")
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "has no column 'emotion'"),
        (b"text,label\nhello,sad\n", "has no column 'emotion'"),
        (b"emotion\nsad\n", "has no column 'situation'"),
        (b"emotion,situation\n", "has no messages"),
        (b"emotion,situation\nsad\n", "line 2: has no situation"),
        (b"\x89PNG\xff", "is no text in UTF-8"),
    ],
)
def test_a_csv_without_messages_is_refused(
    tmp_path: Path, content: bytes, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "situations.csv"
    path.write_bytes(content)
    assert f"{path}" in (said := refused(capsys, "--csv", str(path)))
    assert problem in said


@pytest.mark.parametrize("content", ["= nothing", 'peckish = ["I want a bun."]', 'sad = "Alone."', "sad = []", ""])
def test_a_toml_without_messages_is_refused(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "messages.toml"
    path.write_text(content, "utf-8")
    assert str(path) in refused(capsys, "--toml", str(path))


@pytest.mark.parametrize("option", ["--csv", "--toml", "--votes-in"])
def test_a_file_that_is_missing_or_a_folder_is_named(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert f"{path}: " in refused(capsys, option, str(path))


@pytest.mark.parametrize("option", ["--sample", "--latency"])
@pytest.mark.parametrize("value", ["-1", "many"])
def test_a_number_of_messages_is_one(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--csv", "situations.csv", f"{option}={value}"])
    assert f"{value!r} is not a whole number of at least" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [["--votes-out", "x"], ["--shots"], ["--half", "2"], ["--sample", "9"], ["--seed", "1"]]
)
def test_who_votes_anew_and_how_has_no_place_beside_votes_from_a_file(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--votes-in", "votes.jsonl", *option])
    assert f"{option[0]} asks voters anew, and --votes-in has their votes already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "sources", [[], ["--csv", "a.csv", "--votes-in", "b.jsonl"], ["--csv", "a.csv", "--toml", "b.toml"]]
)
def test_messages_come_from_exactly_one_place(sources: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(sources)
    assert stopped.value.code == 2
    assert "--csv" in capsys.readouterr().err


def test_a_sample_of_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--csv", "situations.csv", "--sample", "0"])
    assert "of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--votes-out", "FOLDER/nowhere/votes.jsonl"], "nowhere/votes.jsonl: No such file or directory"),
        (["--weights", "nothing"], "weights 'nothing'"),
        (["--voter", "big"], "'big' is not NAME=HOST:PORT"),
        (["--voter", "text=localhost:1"], "text sits on the panel already"),
        (["--voter", "big, new=localhost:1"], "marks the variants of --shots"),
        (["--voter", "big=127.0.0.1:1"], "--voter big=127.0.0.1:1: UNAVAILABLE: "),
    ],
)
def test_what_can_be_wrong_is_told_before_anybody_votes(
    tmp_path: Path, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "situations.csv"
    path.write_text("emotion,situation\nsad,Nobody calls.\n", "utf-8")
    given = [option.replace("FOLDER", str(tmp_path)) for option in options]
    assert problem in refused(capsys, "--csv", str(path), *given)


def voted(path: Path, rows: list[Row]) -> str:
    """Writes a file of votes; returns its path."""
    path.write_text("".join(votes.line(row) + "\n" for row in rows), "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "bad",
    [
        "garbage",
        "3",
        '{"id": "1", "label": "sad"}',
        '{"id": "1", "label": "peckish", "votes": {"one": null}}',
        '{"id": "1", "label": "sad", "votes": {"one": {"distribution": {"sad": 2}, "fine": true}}}',
        '{"id": "1", "label": "sad", "votes": {"one": {"distribution": {}, "fine": true}}}',
        '{"id": "1", "label": "sad", "votes": {"one": {"distribution": {"sad": 1.5, "happy": -0.5}, "fine": true}}}',
        '{"id": "1", "label": "sad", "votes": {"one": {"distribution": {"sad": 1}}}}',
    ],
)
def test_a_line_that_is_no_votes_is_named(tmp_path: Path, bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(f"{votes.line(Row('0', 'sad', {'one': SAD}))}\n{bad}\n", "utf-8")
    assert f"{path}, line 2: is no line of votes: " in refused(capsys, "--votes-in", str(path))


def test_an_empty_file_of_votes_and_one_of_abstentions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "votes.jsonl"
    assert "has no messages" in refused(capsys, "--votes-in", voted(path, []))
    silent = voted(path, [Row("0", "sad", {"one": None})])
    assert "every voter abstained on every message" in refused(capsys, "--votes-in", silent)


def test_a_voters_lift_is_the_panel_with_it_less_the_panel_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row(str(number), "sad", {"text": HAPPY, "big": SAD}) for number in range(8)]
    assert main(["--votes-in", voted(tmp_path / "votes.jsonl", rows), "--latency", "0"]) == 0
    # The two always differ, and the surer one, which is wrong, wins.
    lifts = capsys.readouterr().out.partition("lift under majority")[2].splitlines()[1:3]
    assert lifts == [
        "  text         class -100.0 (p = 0.0078), label -100.0",
        "  big          class  +0.0 (p = 1), label  +0.0",
    ]


def test_every_voter_of_the_file_is_seated_but_the_variants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"big": SAD, "bare, 0-shot": HAPPY, "text": SAD}
    path = voted(tmp_path / "votes.jsonl", [Row("0", "sad", said), Row("1", "sad", dict.fromkeys(said))])
    assert main(["--votes-in", path, "--latency", "2"]) == 0
    said_of_all = capsys.readouterr().out
    assert "panel of text, big " in said_of_all
    assert "majority; nobody slow" in said_of_all
    assert "face slow" not in said_of_all, "who is not on the panel cannot be slow"
    assert main(["--votes-in", path, "--latency", "0", "--voter", "bare, 0-shot"]) == 0
    assert "panel of text, big, bare, 0-shot " in capsys.readouterr().out
    assert "--voter huge: is not in the file; its voters are big; " in refused(
        capsys, "--votes-in", path, "--voter", "huge"
    )


def test_liars_and_late_voters_cost_the_majority_little_where_it_keeps_track_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, rows = random.Random(1), []
    voters = {"text": right(0.75), "smollm2": right(0.7), "third": right(0.65)}
    for number in range(250):
        truth = draw(chance)
        said = {name: Said({says(truth, chance): 1.0}, True, 10.0) for name, says in voters.items()}
        rows.append(Row(str(number), truth, said))
    path = voted(tmp_path / "votes.jsonl", rows)
    assert main(["--votes-in", path, "--latency", "0", "--liar", "2", "--late", "third"]) == 0
    printed = capsys.readouterr().out.partition("in mean seconds to the decision")[2]
    found = {line[:45].strip(): [float(each) for each in line[45:].split()] for line in printed.splitlines()[2:]}
    assert set(found) == {"nobody", "third late", *(f"2 liars, {kind}" for kind in liars.lies(WHEEL))}
    for name, (_, lost, _, _, lost_less, _) in found.items():
        if "liars" in name:
            assert lost > 3
            assert lost_less < lost / 2
    _, _, seconds, _, _, fewer_seconds = found["third late"]
    assert fewer_seconds < seconds / 5


def test_only_a_voter_of_the_panel_can_be_made_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = voted(tmp_path / "votes.jsonl", [Row("0", "sad", {"text": SAD})])
    assert "--late face: is not on the panel; its voters are text" in refused(
        capsys, "--votes-in", path, "--late", "face"
    )
