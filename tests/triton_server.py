# ruff: noqa: N802 - the protocol names the methods
"""A server that speaks Triton's protocol and can be told to fail, for tests without a Triton."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as stubs

from tests.fakes import PATIENCE_S

INPUTS = ("text_input", "image", "stream", "sampling_parameters", "exclude_input_in_output", "return_logprobs")

Speaking = Callable[[dict[str, list[Any]], grpc.ServicerContext], Iterator[pb.ModelStreamInferResponse]]


def said(*texts: bytes, is_last: bool = False, logprobs: object = None) -> pb.ModelStreamInferResponse:
    """One response of the model; without texts it only marks the end."""
    answer = pb.ModelInferResponse()
    answer.parameters["triton_final_response"].bool_param = is_last
    outputs = {"text_output": texts, "logprobs": [json.dumps(logprobs).encode()] if logprobs else []}
    for name, values in outputs.items():
        if values:
            answer.outputs.add(name=name, datatype="BYTES", shape=[len(values)])
            answer.raw_output_contents.append(b"".join(len(one).to_bytes(4, "little") + one for one in values))
    return pb.ModelStreamInferResponse(infer_response=answer)


def failed(reason: str) -> pb.ModelStreamInferResponse:
    return pb.ModelStreamInferResponse(error_message=reason)


class Triton(stubs.GRPCInferenceServiceServicer):  # type: ignore[misc]  # generated, without types
    """A server with one model, called m. `asked` holds what it got; `speak` is how it answers."""

    def __init__(self) -> None:
        self.is_live = self.is_ready = self.is_model_ready = self.knows_model = True
        self.inputs: Sequence[str] = INPUTS
        self.parameters = {"model": "org/model-7b"}
        self.asked: list[dict[str, list[Any]]] = []
        self.left = threading.Event()
        self.heeds = True
        self.speak: Speaking = lambda asked, context: iter([said(b"Hel"), said(b"lo."), said(is_last=True)])

    def ServerLive(self, request: Any, context: grpc.ServicerContext) -> Any:
        return pb.ServerLiveResponse(live=self.is_live)

    def ServerReady(self, request: Any, context: grpc.ServicerContext) -> Any:
        return pb.ServerReadyResponse(ready=self.is_ready)

    def ModelReady(self, request: Any, context: grpc.ServicerContext) -> Any:
        return pb.ModelReadyResponse(ready=self.knows_model and self.is_model_ready)

    def ServerMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        return pb.ServerMetadataResponse(name="triton", version="2.51.0")

    def ModelMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        if not self.knows_model:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.name}' is not found")
        found = pb.ModelMetadataResponse(name=request.name, versions=["1"], platform="vllm")
        for name in self.inputs:
            found.inputs.add(name=name)
        found.outputs.add(name="text_output")
        return found

    def ModelConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        found = pb.ModelConfigResponse()
        for name, value in self.parameters.items():
            found.config.parameters[name].string_value = value
        return found

    def ModelStreamInfer(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        request = next(requests)
        asked: dict[str, list[Any]] = {"model": [request.model_name, request.model_version]}
        tells_end = request.parameters["triton_enable_empty_final_response"].bool_param
        for one, raw in zip(request.inputs, request.raw_input_contents, strict=True):
            asked[one.name] = [raw == b"\1"] if one.datatype == "BOOL" else list(_texts(raw))
        parameters = json.loads(asked["sampling_parameters"][0])
        guide = parameters.get("structured_outputs") or parameters.get("guided_decoding")
        choices = json.loads(guide)["choice"] if guide else []
        if "walnut" in choices:
            yield said(b"walnut" if self.heeds else b"four")
            yield said(is_last=True)
            return
        context.add_callback(self.left.set)
        self.asked.append(asked)
        for response in self.speak(asked, context):
            # An end without words is told to those only who asked for it.
            if tells_end or response.error_message or response.infer_response.outputs:
                yield response

    def hang(self, asked: object, context: grpc.ServicerContext) -> Iterator[Any]:
        """Says one word and then nothing more until it is cancelled."""
        yield said(b"Well")
        assert self.left.wait(PATIENCE_S), "it was never cancelled"


def _texts(raw: bytes) -> Iterator[bytes]:
    while raw:
        size = int.from_bytes(raw[:4], "little")
        yield raw[4 : 4 + size]
        raw = raw[4 + size :]


@contextmanager
def listening(triton: Triton, port: int = 0) -> Iterator[tuple[grpc.Server, int]]:
    with futures.ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads)
        stubs.add_GRPCInferenceServiceServicer_to_server(triton, server)
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        try:
            yield server, bound
        finally:
            server.stop(0).wait(PATIENCE_S)
