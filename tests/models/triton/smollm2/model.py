"""SmolLM2 as a model of Triton's Python back-end: it takes and gives what Triton's vLLM back-end does."""

import json
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

# The process that runs this file looks for packages in the system's folders only.
sys.path.append(os.environ["TRITON_PACKAGES"])

import numpy as np
import triton_python_backend_utils as triton  # type: ignore[import-not-found]  # it comes with the server
import xllamacpp

CONTEXT_TOKENS = 4096


class TritonPythonModel:
    """Answers each request on a thread of its own, so that the back-end can take the next and cancel this one."""

    def initialize(self, args: dict[str, str]) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = os.environ["TRITON_WEIGHTS"]
        parameters.n_ctx = CONTEXT_TOKENS
        parameters.n_parallel = 1
        parameters.n_batch = parameters.n_ubatch = 128
        parameters.warmup = False
        parameters.verbosity = -1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        self._server = xllamacpp.Server(parameters)
        # Its loop has begun once it has answered; it must not be freed before.
        self._server.handle_completions({"prompt": "a", "max_tokens": 1})
        self._answering: list[threading.Thread] = []

    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            thread = threading.Thread(target=self._answer, args=(request,))
            thread.start()
            self._answering = [one for one in self._answering if one.is_alive()] + [thread]

    def finalize(self) -> None:
        for thread in self._answering:
            thread.join()
        del self._server

    def _answer(self, request: Any) -> None:
        sender = request.get_response_sender()
        error, count = None, 0

        def take(pieces: Any) -> bool:
            nonlocal error, count
            for piece in pieces if isinstance(pieces, list) else [pieces]:
                if "choices" not in piece:
                    error = triton.TritonError(f"Error generating stream: {piece['error']['message']}")
                    return True
                count += 1
                sender.send(_response(piece["choices"][0], bool(_value(request, "return_logprobs"))))
            return bool(sender.is_cancelled())

        try:
            self._server.handle_completions(_order(request), take)
        except Exception as failure:  # whatever it is, the client waits for a final response
            error = triton.TritonError(f"Error generating stream: {failure}")
        if sender.is_cancelled():
            triton.Logger.log_info(f"cancelled after {count} pieces")
            error = triton.TritonError("Request was cancelled", triton.TritonError.CANCELLED)
        final = triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        if error:
            sender.send(triton.InferenceResponse(error=error), flags=final)
        else:
            sender.send(flags=final)


def _value(request: Any, name: str) -> Any:
    tensor = triton.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()[0]


def _order(request: Any) -> dict[str, Any]:
    """Returns a request in the way of vLLM as one of llama.cpp."""
    asked = json.loads(_value(request, "sampling_parameters") or "{}")
    order = {name: asked[name] for name in ("max_tokens", "temperature", "top_p", "seed", "logprobs") if name in asked}
    if "structured_outputs" in asked:
        choices = json.loads(asked["structured_outputs"])["choice"]
        # A JSON string is a string of the grammar, too.
        order["grammar"] = f"root ::= {' | '.join(json.dumps(choice) for choice in choices)}"
    return order | {"prompt": _value(request, "text_input").decode(), "cache_prompt": False, "stream": True}


def _response(choice: dict[str, Any], tells: bool) -> Any:
    outputs = [triton.Tensor("text_output", np.array([choice["text"].encode()], np.object_))]
    if tells:
        steps = [_step(token) for token in (choice["logprobs"] or {}).get("content") or []]
        outputs.append(triton.Tensor("logprobs", np.array([json.dumps(steps).encode()], np.object_)))
    return triton.InferenceResponse(output_tensors=outputs)


def _step(token: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The token that was taken comes first."""
    others = (one for one in token["top_logprobs"] if one["id"] != token["id"])
    return {one["id"]: {"logprob": one["logprob"], "decoded_token": one["token"]} for one in (token, *others)}
