"""The benchmark of segments really films with processes of its own."""

import pytest

from benchmarks import segments


async def test_replies_are_filmed_by_each_number_of_replicas(capsys: pytest.CaptureFixture[str]) -> None:
    await segments.compare([1, 2], work=0.01, sentences=6)
    heading, columns, *rows = capsys.readouterr().out.splitlines()
    assert heading.endswith(" s of speech, 0.01 s of rendering for each second of film")
    assert columns.split()[:2] == ["replicas", "segments"]
    names = ["1", "2", "2, one busy, in turn", "2, one busy, by wait"]
    assert [(row[:30].strip(), row[30:40].strip()) for row in rows] == [(name, "3") for name in names]
