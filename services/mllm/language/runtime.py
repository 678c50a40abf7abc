"""llama.cpp in this process: loads a GGUF, tokenizes, and continues prompts."""

import http.client
import json
import queue
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import xllamacpp

from services.common.errors import BackendFailed
from services.mllm.language.signals import kept

BATCH_TOKENS = 128
"""Tokens read in one go. More is not faster on one thread and takes memory."""
ANSWER_S_MAX = 10.0
"""Longest wait for the library's own port, which computes next to nothing."""


class Runtime:
    """One loaded model.

    Args:
        weights: A GGUF file.
        context_tokens: Room for all texts that are written side by side, together with their prompt.
        parallel: How many texts may be written side by side.
        adapter: A LoRA in GGUF, laid over the weights.
        threads: More than one spin against the other services' threads and are slower on a busy machine.
        gpu_layers: Layers that are computed on a GPU.

    Raises:
        BackendFailed: The weights cannot be loaded, or there is no GPU for `gpu_layers`.
    """

    def __init__(
        self,
        weights: Path,
        context_tokens: int,
        parallel: int = 1,
        adapter: Path | None = None,
        threads: int = 1,
        gpu_layers: int = 0,
    ) -> None:
        for file in (weights, *([adapter] if adapter else [])):
            if not file.is_file():
                raise BackendFailed(f"{file} is missing; `make models` fills the model folder, if it belongs there")
        if gpu_layers and not _has_gpu():
            raise BackendFailed(f"gpu_layers: {gpu_layers}, but this build of xllamacpp finds no GPU; set 0")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(weights)
        parameters.n_ctx = context_tokens
        parameters.n_parallel = parallel
        parameters.n_gpu_layers = gpu_layers
        parameters.kv_unified = True
        # What was read of a prompt is used again; a model with a sliding window would have dropped it.
        parameters.swa_full = True
        parameters.cache_ram_mib = 0
        # Room for the answers' logits goes with the batch: 49152 words x 4 bytes each.
        parameters.n_batch = parameters.n_ubatch = BATCH_TOKENS
        parameters.warmup = False
        parameters.verbosity = -1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        # The library also listens on a loopback port. Only what it offers nowhere else is asked for there, and a key
        # that nobody else knows closes it.
        self._key = secrets.token_hex(32)
        parameters.api_keys = [self._key]
        parameters.n_threads_http = 1
        if adapter:
            lora = xllamacpp.CommonAdapterLoraInfo()
            lora.path, lora.scale = str(adapter), 1.0
            parameters.lora_adapters = [lora]
        with kept(signal.SIGINT, signal.SIGTERM):
            try:
                self._server: xllamacpp.Server | None = xllamacpp.Server(parameters)
            except RuntimeError as error:
                raise BackendFailed(f"{weights} cannot be loaded: {error}") from error
        # A server that is freed before its loop has begun never ends; the first answer proves that it has.
        self.complete({"prompt": "a", "max_tokens": 1})

    def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns llama.cpp's answer to a completion request.

        Raises:
            BackendFailed: It refused, or the model is closed.
        """
        answer: dict[str, Any] = self._loaded().handle_completions(request)
        if "choices" not in answer:
            raise BackendFailed(f"the model refused: {answer}")
        return answer

    def stream(self, request: dict[str, Any], stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields the text of the answer as it is written. Closing the iterator, or `stopped`, stops the model.

        Raises:
            BackendFailed: As above.
        """
        pieces: queue.Queue[str | BaseException | None] = queue.Queue()
        closed = threading.Event()

        def heard(piece: dict[str, Any]) -> bool:
            if "choices" in piece:
                pieces.put(piece["choices"][0]["text"])
            else:
                pieces.put(BackendFailed(f"the model refused: {piece}"))
            return closed.is_set() or stopped()

        def work() -> None:
            last: BaseException | None = None
            try:
                self._loaded().handle_completions(request | {"stream": True}, heard)
            except BaseException as error:  # handed to who reads, whatever it is
                last = error
            pieces.put(last)

        # The library calls back from within its call, which blocks; so the call has a thread of its own.
        thread = threading.Thread(target=work, name="llama", daemon=True)
        thread.start()
        try:
            while isinstance(piece := pieces.get(), str):
                if piece:
                    yield piece
            if piece is not None:
                raise piece
        finally:
            closed.set()
            thread.join()

    def tokens(self, text: str, *, begins: bool) -> list[int]:
        """Returns the tokens of `text`, with the mark of a begin if it `begins` a text. Marks in it act as marks."""
        found: list[int] = self._ask("/tokenize", {"content": text, "add_special": begins})["tokens"]
        return found

    def chat_prompt(self, messages: Sequence[dict[str, str]]) -> str:
        """Returns the prompt that the GGUF's own template makes of messages (`role`, `content`)."""
        prompt: str = self._ask("/apply-template", {"messages": list(messages)})["prompt"]
        return prompt

    def end_token(self) -> str:
        """Returns the mark that ends a text."""
        mark: str = self._ask("/props", None)["eos_token"]
        return mark

    def close(self) -> None:
        """Frees the model."""
        self._server = None

    def _ask(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """Returns what the library's own port says; asked directly, whatever proxy this process has."""
        connection = http.client.HTTPConnection(urlsplit(self._loaded().listening_address).netloc, timeout=ANSWER_S_MAX)
        try:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            content = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, content, headers)
            answer = connection.getresponse()
            found: dict[str, Any] = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise BackendFailed(f"the model refused: {found}")
        return found

    def _loaded(self) -> xllamacpp.Server:
        if self._server is None:
            raise BackendFailed("the model is closed")
        return self._server


def _has_gpu() -> bool:
    return any("GPU" in device["type"].name for device in xllamacpp.get_device_info())
