"""A stream that lasts longer than proxies allow by default."""

import time
from collections.abc import Iterator

import grpc

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from tests.clips import tone, wav
from tests.support.turns_under_load import paced

LASTS_S = 70.0
PIECES = 35


def test_a_turn_whose_sound_arrives_for_more_than_a_minute_is_answered_whole(address: str) -> None:
    sound = wav(tone(duration_s=10))
    size = len(sound) // PIECES + 1
    pieces = (sound[start : start + size] for start in range(0, len(sound), size))

    def slowly() -> Iterator[pb.RespondRequest]:
        text = "My daughter was born this morning!"
        yield pb.RespondRequest(header=pb.RespondHeader(text=text, identity="anna", audio_size_bytes=len(sound)))
        yield from (pb.RespondRequest(audio=piece) for piece in paced(pieces, LASTS_S / PIECES))

    began_s = time.monotonic()
    with grpc.insecure_channel(address) as channel:
        call = orchestrator_pb2_grpc.OrchestratorServiceStub(channel).Respond(slowly(), timeout=115)
        events = [event.WhichOneof("event") for event in call]
    assert time.monotonic() - began_s > LASTS_S
    assert {"text", "audio", "video", "done"} <= set(events)
    assert "degraded" not in events
