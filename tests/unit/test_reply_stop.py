"""A caller who leaves takes the work with it: the service tells the model to stop in mid-sentence."""

from collections.abc import AsyncGenerator, Iterator
from typing import cast

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from services.common.inference import InferenceQueue
from services.mllm.domain import (
    Card,
    Level,
    Message,
    Modality,
    Prediction,
    ReplyRecord,
    ReplyRequest,
    ReplySentence,
)
from services.mllm.servicer import MllmServicer

WAIT_MAX_S = 20.0


class Endless:
    """Says one sentence, then works on the second until it is stopped; `stopped` tells whether it was."""

    card = Card("endless", "0" * 64, frozenset({Modality.TEXT}), Level.LABEL)

    def __init__(self) -> None:
        self.stopped = False

    def predict(self, message: Message) -> Prediction:
        return Prediction(Level.LABEL, {}, frozenset(), "scored", abstained="never asked")

    def write(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        yield ReplySentence("One moment.")
        self.stopped = request.stop.wait(WAIT_MAX_S)

    def close(self) -> None:
        """Nothing is held."""


async def test_a_caller_who_leaves_stops_the_model_in_mid_sentence() -> None:
    wheel, backend = emotions.load(), Endless()
    queue = InferenceQueue("mllm", "endless", waiting_max=1)
    servicer = MllmServicer("endless", backend, queue, wheel)
    emotion = common.Emotion(label="sad", ontology_hash=wheel.digest)
    request = pb.WriteReplyRequest(text="I am sad.", user_emotion=emotion, reply_emotion=emotion)
    replies = cast(AsyncGenerator[pb.WriteReplyResponse], servicer.WriteReply(request, None))
    await anext(replies)
    await replies.aclose()
    queue.close()
    assert backend.stopped
