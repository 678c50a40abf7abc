"""Any model that `python -m services.mllm` serves, as a voter that is measured."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import grpc

import emotions
from benchmarks.panel.votes import VARIANT_MARK, InputError, Predict
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from local.deployment import VOTERS, named_address
from services.mllm.domain import Level, Message, Modality, Prediction

TIMEOUT_S = 120.0
MEET_TIMEOUT_S = 10.0


class Served:
    """The model behind `channel`, asked for its vote on the text of a message; `voter` names it in errors.

    Raises:
        InputError: It cannot be reached.
    """

    def __init__(self, voter: str, channel: grpc.Channel) -> None:
        self._voter = voter
        self._stub = mllm_pb2_grpc.MllmServiceStub(channel)
        self._wheel = emotions.load()
        try:
            self._stub.GetModel(pb.GetModelRequest(), timeout=MEET_TIMEOUT_S)
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def predict(self, message: Message) -> Prediction:
        """Returns its vote.

        Raises:
            InputError: It cannot be reached, or failed.
        """
        header = pb.PredictEmotionHeader(text=message.text, ontology_hash=self._wheel.digest, seed=message.seed)
        try:
            answer = self._stub.PredictEmotion(iter([pb.PredictEmotionRequest(header=header)]), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise self._failure(error) from error
        is_fine = answer.level == pb.LEVEL_LABEL
        distribution = dict(answer.distribution)
        return Prediction(
            Level.LABEL if is_fine else Level.CLASS,
            distribution if is_fine or not distribution else self._wheel.gather(distribution),
            frozenset({Modality.TEXT}),  # nothing else was sent
            answer.parse,
            abstained=answer.abstained,
        )

    def _failure(self, error: grpc.RpcError) -> InputError:
        return InputError(f"--voter {self._voter}: {error.code().name}: {' '.join((error.details() or '').split())}")


@contextmanager
def served(addresses: Sequence[str]) -> Iterator[dict[str, Predict]]:
    """Connects to the models of `addresses`, each "name=host:port".

    Raises:
        InputError: An address is not of that form, a name is taken, or a model cannot be reached.
    """
    with ExitStack() as stack:
        voters: dict[str, Predict] = {}
        for text in addresses:
            try:
                name, address = named_address(text)
            except ValueError as error:
                raise InputError(f"--voter {error}") from error
            if name in VOTERS or name in voters:
                raise InputError(f"--voter {text}: {name} sits on the panel already; give this one another name")
            if VARIANT_MARK in name:
                raise InputError(f"--voter {text}: {VARIANT_MARK!r} marks the variants of --shots; leave it out")
            voters[name] = Served(text, stack.enter_context(grpc.insecure_channel(address))).predict
        yield voters
