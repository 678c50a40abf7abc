"""What a caller of mllm sends."""

from typing import TYPE_CHECKING, cast

import grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from tests.serving import Served

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub

HASH = emotions.load().digest
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def stub_of(served: Served) -> "Stub":
    return cast("Stub", mllm_pb2_grpc.MllmServiceStub(served.channel))


def head(text: str = "I lost my job.", ontology_hash: str = HASH) -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(header=pb.PredictEmotionHeader(text=text, ontology_hash=ontology_hash))


def audio(content: bytes) -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(audio=content)


def frame(content: bytes, time_s: float = 0) -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(frame=pb.Frame(time_s=time_s, jpeg=content))


def emotion(label: str = "sad", ontology_hash: str = HASH) -> common.Emotion:
    return common.Emotion(label=label, intensity=0.5, ontology_hash=ontology_hash)


def example(**changes: object) -> pb.Example:
    fields: dict[str, object] = {"user_text": "They let me go.", "user_emotion": "sad", "reply_text": "Oh no."}
    return pb.Example(**(fields | changes))  # type: ignore[arg-type]


def order(**changes: object) -> pb.WriteReplyRequest:
    fields: dict[str, object] = {
        "text": "I lost my job.",
        "user_emotion": emotion(),
        "reply_emotion": emotion("caring"),
        "profile": common.Profile(name="Ada", age="young", gender="female", timbre="mid"),
    }
    return pb.WriteReplyRequest(**(fields | changes))  # type: ignore[arg-type]
