"""The benchmark of segments really films with processes of its own."""

import pytest

from benchmarks import segments


async def test_replies_are_filmed_by_each_number_of_replicas(capsys: pytest.CaptureFixture[str]) -> None:
    await segments.compare([1, 2], work=0.01)
    heading, columns, *rows = capsys.readouterr().out.splitlines()
    assert heading.startswith("37.7 s of speech, 0.01 s of rendering")
    assert columns.split()[:2] == ["replicas", "segments"]
    assert [row.split()[:2] for row in rows] == [["1", "8"], ["2", "8"]]
