"""The back-ends as containers run them, over gRPC."""

from pathlib import Path

import numpy as np
import pytest

from e3rg.common.v1 import common_pb2 as common
from services.mllm.domain import Frame
from tests.models.serving import LABELS, predict, process, reply
from tests.models.transformers import tiny
from tests.models.transformers.tiny_omni import qwen_omni

CHANCE = np.random.default_rng(6)
PCM = CHANCE.normal(0, 3000, 3 * 16_000).astype("<i2").tobytes()
FRAMES = [Frame(place / 2, CHANCE.integers(0, 255, (96, 128, 3), dtype=np.uint8)) for place in range(6)]
TEXT, AUDIO, VIDEO = common.MODALITY_TEXT, common.MODALITY_AUDIO, common.MODALITY_VIDEO


def test_a_text_model_votes_on_the_words_and_says_that_it_saw_no_more(tmp_path: Path) -> None:
    folder = tiny.vicuna(tmp_path / "vicuna-7b-v1.5")
    settings = {"WEIGHTS": str(folder), "CHAT_TEMPLATE": "vicuna-1.1"}
    with process("transformers_text", settings, tmp_path / "log") as stub:
        vote = predict(stub, PCM, FRAMES)
        assert (vote.label in LABELS, vote.parse, len(vote.distribution)) == (True, "scored", len(LABELS))
        assert sum(vote.distribution.values()) == pytest.approx(1, abs=1e-3)
        assert list(vote.saw) == [TEXT]
        assert vote.evidence["not_seen"] == "audio 3.0 s, 6 frames: this model perceives text only"
        assert predict(stub, PCM, FRAMES) == vote
        sentences, record = reply(stub)
        assert sentences
        assert reply(stub) == (sentences, record)


def test_qwen_omni_votes_on_words_sound_and_frames_and_says_what_was_cut(tmp_path: Path) -> None:
    folder = qwen_omni(tmp_path / "Qwen2.5-Omni-7B")
    settings = {"WEIGHTS": str(folder), "AUDIO_S_MAX": "2", "FRAMES_MAX": "3"}
    with process("qwen_omni", settings, tmp_path / "log") as stub:
        vote = predict(stub, PCM, FRAMES)
        assert (vote.label in LABELS, vote.parse, set(vote.saw)) == (True, "scored", {TEXT, AUDIO, VIDEO})
        assert vote.evidence["cut"] == "audio 3.0 s to its last 2 s, 6 frames to 3"
        words = predict(stub)
        assert set(words.saw) == {TEXT}
        assert "cut" not in words.evidence
        heard, seen = predict(stub, PCM), predict(stub, frames=FRAMES)
        votes = [dict(one.distribution) for one in (vote, words, heard, seen)]
        assert all(one != other for place, one in enumerate(votes) for other in votes[place + 1 :])
        assert set(predict(stub, PCM, text="").saw) == {AUDIO}
        assert reply(stub)[0]
