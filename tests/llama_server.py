"""A real OpenAI-compatible server for tests: llama.cpp's, in a process of its own, with the small model of `.models`.

`python -m tests.llama_server KEY` prints its address when it is ready and serves until its standard input ends.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WEIGHTS = Path(".models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
MODEL = "smollm2"


@contextmanager
def llama_server(key: str) -> Iterator[str]:
    """Runs the server; yields where its API begins."""
    command = [sys.executable, "-m", "tests.llama_server", key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), "its own words are above"
            yield f"{address}/v1"
        finally:
            process.stdin.close()


def main() -> None:
    """Serves."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(WEIGHTS)
    parameters.model_alias = {MODEL}
    parameters.n_ctx, parameters.n_parallel = 1024, 1
    parameters.n_batch = parameters.n_ubatch = 128
    parameters.cache_ram_mib = 0
    parameters.warmup = False
    parameters.verbosity = -1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.api_keys = [sys.argv[1]]
    parameters.endpoint_metrics = True
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
