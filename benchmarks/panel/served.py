"""Any model that `python -m services.mllm` serves, as a voter that is measured."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import grpc

import emotions
from benchmarks.panel.votes import Predict
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from services.mllm.domain import Level, Message, Modality, Prediction

TIMEOUT_S = 120.0
_SENSES = {
    common.MODALITY_TEXT: Modality.TEXT,
    common.MODALITY_AUDIO: Modality.AUDIO,
    common.MODALITY_VIDEO: Modality.VIDEO,
}


class Served:
    """A model behind `channel`, asked for its vote on the text of a message."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = mllm_pb2_grpc.MllmServiceStub(channel)
        self._wheel = emotions.load()

    def predict(self, message: Message) -> Prediction:
        """Returns its vote.

        Raises:
            grpc.RpcError: It cannot be reached, or failed.
        """
        header = pb.PredictEmotionHeader(text=message.text, ontology_hash=self._wheel.digest, seed=message.seed)
        answer = self._stub.PredictEmotion(iter([pb.PredictEmotionRequest(header=header)]), timeout=TIMEOUT_S)
        is_fine = answer.level == pb.LEVEL_LABEL
        distribution = dict(answer.distribution)
        return Prediction(
            Level.LABEL if is_fine else Level.CLASS,
            distribution if is_fine or not distribution else self._wheel.gather(distribution),
            frozenset(_SENSES[sense] for sense in answer.saw),
            answer.parse,
            abstained=answer.abstained,
        )


@contextmanager
def served(addresses: Sequence[str]) -> Iterator[dict[str, Predict]]:
    """Connects to the models of `addresses`, each "name=host:port".

    Raises:
        ValueError: An address is not of that form.
    """
    with ExitStack() as stack:
        voters: dict[str, Predict] = {}
        for text in addresses:
            name, separator, address = text.partition("=")
            if not (name and separator and address):
                raise ValueError(f"--voter {text}: write NAME=HOST:PORT")
            voters[name] = Served(stack.enter_context(grpc.insecure_channel(address))).predict
        yield voters
