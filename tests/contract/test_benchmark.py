"""The panel's benchmark asks real voters, embedded and served ones."""

import asyncio
from pathlib import Path

import pytest

import emotions
from benchmarks.panel import voters, votes
from benchmarks.panel.__main__ import main
from local.deployment import VOTERS
from services.mllm.backends.smollm2 import create
from services.mllm.domain import Level, Message
from tests.fake_voters import FakeVoter
from tests.model_services import serving_mllm

WHEEL = emotions.load()
TEXT = "My mother's funeral was yesterday and I miss her so much."


async def test_embedded_and_served_voters_vote_and_their_votes_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv, kept = tmp_path / "situations.csv", tmp_path / "votes.jsonl"
    csv.write_text(f'emotion,situation\nsad,"{TEXT}"\n', "utf-8")
    big = FakeVoter({"sad": 0.75, "fear": 0.25}, Level.CLASS)
    async with serving_mllm("big", big, WHEEL) as served:
        options = ["--csv", str(csv), "--votes-out", str(kept), "--latency", "0", "--voter", f"big={served.address}"]
        assert await asyncio.to_thread(main, options) == 0
    assert f"panel of {', '.join([*VOTERS, 'big'])} " in capsys.readouterr().out
    (row,) = votes.read_votes(kept, WHEEL)
    assert list(row.votes) == [*VOTERS, "big"]
    assert {name for name, said in row.votes.items() if said is None} == {"face", "voice"}
    for name in ("text", "smollm2"):
        said = row.votes[name]
        assert said
        assert said.fine
        assert said.cost_ms > 0
        assert WHEEL.gather(said.distribution)["sad"] > 0.5
    coarse = row.votes["big"]
    assert coarse
    assert not coarse.fine
    assert WHEEL.gather(coarse.distribution)["sad"] == pytest.approx(0.75, abs=1e-4)


def test_smollm2_is_asked_with_and_without_adapter_and_examples() -> None:
    message = Message(text=TEXT)
    smollm2 = create()
    shipped = smollm2.predict(message).distribution
    smollm2.close()
    with voters.asked_otherwise() as asked:
        found = {name: predict(message).distribution for name, predict in asked.items()}
    assert set(found) == {
        "bare, 12 fixed shots",
        *(f"{how}, {n}-shot" for how in ("bare", "adapted") for n in (0, 1, 3)),
    }
    assert found["adapted, 0-shot"] == pytest.approx(shipped, abs=1e-4)
    others = [tuple(each.values()) for name, each in found.items() if name != "adapted, 0-shot"]
    assert len({*others, tuple(shipped.values())}) == len(found), "each way of asking gives another vote"
