"""The voice as a container runs it: a process of its own, asked over gRPC."""

from pathlib import Path

import grpc
import pytest

from e3rg.tts.v1 import tts_pb2 as pb
from e3rg.tts.v1 import tts_pb2_grpc
from tests.conformance.voice import LONG, asked
from tests.models.openvoice import layout
from tests.models.serving import service

TIMEOUT_S = 300


def test_it_answers_through_official_layout_folders(tmp_path: Path) -> None:
    root = layout.write_openvoice(tmp_path / "OpenVoice")
    with service("tts", {"BACKEND": "openvoice", "WEIGHTS": str(root)}, tmp_path / "log") as channel:
        stub = tts_pb2_grpc.TtsServiceStub(channel)
        model = stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT_S)
        assert (model.card.backend, model.card.model) == ("openvoice", "openvoice-v1-en+converter-v1")
        assert (len(model.styles), list(model.languages), model.sample_rate_hz) == (9, ["en"], 22_050)
        first, *parts = stub.Speak(iter(asked("Good evening.", LONG, style="sad")), timeout=TIMEOUT_S)
        assert first.ready.fitted
        samples = sum(len(part.chunk.samples) // 2 for part in parts)
        ends = [part.sentence_end for part in parts if part.HasField("sentence_end")]
        assert [end.sentence for end in ends] == ["Good evening.", LONG]
        assert sum(end.duration_s for end in ends) == pytest.approx(samples / 22_050)
        assert set(ends[0].applied) >= {"rate", "style_share", "level_dbfs"}
        sounds = [sound for part in parts for sound in part.chunk.phonemes]
        assert sounds[-1].start_s + sounds[-1].duration_s == pytest.approx(samples / 22_050)
        cancelled = stub.Speak(iter(asked(*[LONG] * 8)), timeout=TIMEOUT_S)
        while not next(cancelled).HasField("chunk"):
            pass
        cancelled.cancel()
        assert list(stub.Speak(iter(asked("Good.")), timeout=TIMEOUT_S))[-1].HasField("sentence_end")
        with pytest.raises(grpc.RpcError, match=r"header\.style: 'operatic'"):
            list(stub.Speak(iter(asked("Good.", style="operatic")), timeout=TIMEOUT_S))
