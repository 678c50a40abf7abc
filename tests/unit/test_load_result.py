"""Results of a load: counts, percentiles, series, bounds and the table."""

import json

import pytest

from benchmarks.load import Profile, ProfileError, Result, Turn, report
from benchmarks.load.bounds import parse_bound
from benchmarks.load.result import percentile


def result(*turns: Turn, not_sent_at_s: tuple[float, ...] = (), elapsed_s: float = 10.0) -> Result:
    return Result(Profile("127.0.0.1:1"), "load-1", turns, not_sent_at_s, elapsed_s)


def turn(
    kind: str = "text", outcome: str = "ok", at_s: float = 0.0, first_video_s: float | None = None, problem: str = ""
) -> Turn:
    status = {"refused": "RESOURCE_EXHAUSTED", "failed": "UNAVAILABLE"}.get(outcome, "OK")
    ended_at_s = None if outcome == "unfinished" else at_s + 4
    made = Turn(kind, at_s, at_s, ended_at_s, outcome, status, problem, first_video_s=first_video_s)
    made.trace_id = f"trace of {problem}"
    return made


@pytest.mark.parametrize(
    ("values", "percent", "value"),
    [
        ([], 50, None),
        ([3.0], 99, 3.0),
        ([4, 1, 3, 2], 50, 2),
        ([4, 1, 3, 2], 51, 3),
        (range(1, 101), 95, 95),
        (range(1, 101), 99, 99),
        (range(1, 101), 100, 100),
        (range(1, 11), 0, 1),
    ],
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    values: list[float], percent: float, value: float | None
) -> None:
    assert percentile(values, percent) == value


def test_percentiles_are_of_the_turns_that_have_the_measure_by_kind_of_message() -> None:
    found = result(turn(first_video_s=1.0), turn("audio", first_video_s=3.0), turn(outcome="failed"))
    assert found.percentile("first_video_s", 95) == 3.0
    assert found.percentile("first_video_s", 95, "text") == 1.0
    assert found.figures["audio.first_video_p95_s"] == found.figures["first_video_max_s"] == 3.0
    assert found.figures["video.first_video_p95_s"] is None
    assert found.figures["whole_p50_s"] is None


def test_a_turn_without_a_whole_reply_is_lost_whatever_became_of_it() -> None:
    partial = turn(outcome="degraded")
    partial.lacks = ["video"]
    turns = [turn(outcome=outcome) for outcome in ("ok", "degraded", "refused", "failed", "late", "unfinished")]
    found = result(*turns, partial)
    assert found.lost == [*turns[2:5], partial]
    assert (found.figures["lost"], found.figures["refused"], found.figures["degraded"], found.answered) == (4, 1, 2, 3)


def test_problems_that_differ_in_numbers_only_are_one() -> None:
    told = [f"tts: {number} requests wait, {number / 2} s" for number in (8, 9)]
    found = result(*(turn(outcome="refused", problem=each) for each in told), turn(outcome="failed", problem="gone"))
    assert found.problems() == [
        ("refused, RESOURCE_EXHAUSTED: tts: N requests wait, N s", 2, f"trace of {told[0]}"),
        ("failed, UNAVAILABLE: gone", 1, "trace of gone"),
    ]


def test_the_series_has_a_row_a_second_with_first_videos_when_they_came() -> None:
    rows = result(
        turn(at_s=0.5, first_video_s=1.0), turn(at_s=0.6, outcome="failed"), not_sent_at_s=(2.5,), elapsed_s=4.9
    ).series()
    assert [row["at_s"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["sent"] for row in rows] == [2, 0, 0, 0, 0]
    assert [row["open"] for row in rows] == [2, 2, 2, 2, 0]
    assert [row["not_sent"] for row in rows] == [0, 0, 1, 0, 0]
    assert (rows[4]["done"], rows[4]["lost"], rows[4]["level"]) == (2, 1, 1)
    assert [row["first_video_p95_s"] for row in rows] == [None, 1.0, None, None, None]


@pytest.mark.parametrize(
    ("bound", "failure"),
    [
        ("lost>0", "lost>0: it is 1"),
        ("lost > 1", ""),
        ("lost>=1", "lost>=1: it is 1"),
        ("sent==3", "sent==3: it is 3"),
        ("sent!=3", ""),
        ("answered<2.5", "answered<2.5: it is 2"),
        ("answered<=1", ""),
        ("first_video_p95_s>0.9", "first_video_p95_s>0.9: it is 1"),
        ("text.first_video_max_s>3", ""),
        ("first_sound_p95_s>3", "first_sound_p95_s>3: nothing was measured"),
    ],
)
def test_a_bound_fails_a_run_and_so_does_nothing_measured(bound: str, failure: str) -> None:
    found = result(turn(first_video_s=1.0), turn(), turn(outcome="failed"))
    assert parse_bound(bound, found.figures).failure(found.figures) == failure


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lost", "'lost'; give NAME>NUMBER"),
        ("lost>", "'lost>'; give NAME>NUMBER"),
        ("lost>many", "'lost>many'; give NAME>NUMBER"),
        ("lost=0", "'lost=0'; give NAME>NUMBER"),
        ("first_video_s>3", "'first_video_s' is no figure; there are first_video_p"),
    ],
)
def test_a_wrong_bound_is_named_with_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(ProfileError, match=told):
        parse_bound(text, result().figures)


def test_the_table_tells_kinds_losses_and_percentiles() -> None:
    refused = turn(outcome="refused", problem="8 requests wait")
    told = "\n".join(report.lines(result(turn(first_video_s=1.0), turn("audio", first_video_s=3.0), refused)))
    assert "3 turns sent in 10.0 s, 2 answered: 0.20 a second" in told
    assert "1 lost (without a whole reply), 0 not sent" in told
    assert "first video, s    all            2    1.00    3.00    3.00    3.00    3.00" in told
    assert "                  audio          1    3.00    3.00    3.00    3.00    3.00" in told
    assert "lost         1  refused, RESOURCE_EXHAUSTED: N requests wait (trace id of one: trace of 8 req" in told
    assert "at most 0 ms late" in told


def test_a_generator_that_sends_late_is_named_as_the_bottleneck() -> None:
    late = Turn("text", due_at_s=1.0, sent_at_s=1.2)
    found = result(turn(), late)
    assert found.is_late
    assert "THE GENERATOR WAS THE BOTTLENECK" in "\n".join(report.lines(found))
    assert not result(turn()).is_late


def test_everything_can_be_written_as_json() -> None:
    found = json.loads(json.dumps(result(turn(first_video_s=1.0)).plain()))
    assert found["figures"]["first_video_p95_s"] == 1.0
    assert found["profile"]["mix"] == {"text": 1.0}
    assert found["turns"][0]["outcome"] == "ok"
    assert len(found["series"]) == 10
