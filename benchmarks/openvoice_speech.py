"""Measures OpenVoice's back-end from text to speech at the published sizes, with made-up weights.

    python -m benchmarks.openvoice_speech [--device cuda] [--dtype bfloat16] [--repeats N]

Prints how long the first stretch and the whole of one sentence take, and several sentences with different batches. On a
CPU, the seconds are those that the process computed, on one thread; on a GPU, those that passed. Made-up weights give
every sound about the same time, so that a second of speech holds as many sounds as usual or somewhat fewer.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from services.tts.backends import openvoice
from services.tts.backends.openvoice import OpenVoiceBackend
from services.tts.domain import Delivery
from services.tts.openvoice.colours import Colour
from tests.models.openvoice import layout, tiny

WIDTH = 256
"""Of a tone colour."""
SENTENCES = (
    "I am so sorry to hear about your dog.",
    "The weather stays warm by the river, and the lamp is on.",
    "Tell me how it was when you came home that evening.",
    "We can sit down and talk about it for as long as you like.",
    "There is no hurry at all.",
)


def measure(backend: OpenVoiceBackend, texts: tuple[str, ...], device: str) -> tuple[float, float, float]:
    """Returns the seconds to the first stretch and to the last, and the seconds of speech."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    voice = Colour("v1", np.zeros(WIDTH, np.float32), -20.0)
    begun_s = clock()
    first_s, samples = 0.0, 0
    for speech in backend.speak(texts, voice, Delivery("cheerful", 0.7)):
        first_s = first_s or clock() - begun_s
        samples += len(speech.samples)
    return first_s, clock() - begun_s, samples / backend.sample_rate_hz


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="where PyTorch computes")
    parser.add_argument("--dtype", default="float32", help="what the networks compute in")
    parser.add_argument("--repeats", type=int, default=2, help="how often each way is measured; the best counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        layout.write_openvoice(Path(folder), tiny.OFFICIAL)
        os.environ |= layout.settings(Path(folder), DEVICE=options.device, DTYPE=options.dtype)
        backends = {}
        for batch in (1, 4):
            os.environ["E3RG_TTS_BATCH_MAX"] = str(batch)
            begun_s = time.process_time()
            backends[batch] = openvoice.create()
            print(f"start: {time.process_time() - begun_s:.1f} s of computing")
        rows = [("one sentence", 1, SENTENCES[1:2]), *(("five sentences", batch, SENTENCES) for batch in backends)]
        print(f"{'':16} batch   speech s  first stretch s  all s  per second of speech")
        for name, batch, texts in rows:
            times = [measure(backends[batch], texts, options.device) for _ in range(options.repeats)]
            first_s, all_s, speech_s = (min(column) for column in zip(*times, strict=True))
            print(f"{name:16} {batch:5} {speech_s:10.1f} {first_s:16.2f} {all_s:6.2f} {all_s / speech_s:21.2f}")


if __name__ == "__main__":
    main()
