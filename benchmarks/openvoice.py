"""Measures OpenVoice's converter and MeloTTS at their published sizes, with made-up weights: what helps, and how much.

    python -m benchmarks.openvoice [--device cuda] [--speech-s S] [--repeats N] [--compiled]

Each way is measured in turn in every repetition, and the best of each counts. On a CPU, the seconds are those that the
process computed, on one thread; on a GPU, those that passed. `--compiled` adds `torch.compile`, which takes minutes.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from services.tts.openvoice.converter import Converter, load_converter
from services.tts.openvoice.melo import load_melo
from services.tts.openvoice.noise import Gaussian
from services.tts.openvoice.spoken import Latents
from services.tts.openvoice.vocoder import Vocoder
from tests.models.openvoice import tiny

FIRST_FRAMES, FURTHER_FRAMES = 10, 40
ROWS = 4
Way = Callable[[], object]


def noise(rows: int) -> Gaussian:
    """Returns noise for so many rows."""
    return Gaussian([torch.Generator().manual_seed(row) for row in range(rows)])


def measure(ways: dict[str, Way], repeats: int, device: str) -> dict[str, float]:
    """Returns the seconds of each way, the best of all repetitions."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    best = dict.fromkeys(ways, float("inf"))
    for repetition in range(repeats + 1):
        for name, way in ways.items():
            begun_s = clock()
            way()
            if device != "cpu":
                torch.cuda.synchronize()
            if repetition:  # the first warms up
                best[name] = min(best[name], clock() - begun_s)
    return best


def report(title: str, seconds: dict[str, float], speech_s: float) -> None:
    """Prints each way beside the first."""
    first = next(iter(seconds.values()))
    print(f"\n{title}\n{'':46} seconds  per second of speech  ratio")
    for name, one in seconds.items():
        print(f"{name:46} {one:7.3f}  {one / speech_s:20.3f}  {one / first:5.2f}")


def in_pieces(vocoder: Vocoder, heard: Latents) -> Way:
    """Decodes a short piece and then longer ones."""
    sizes = (FIRST_FRAMES, FURTHER_FRAMES)
    return lambda: list(vocoder.pieces(heard.latents, heard.frames, heard.condition, sizes))


def first_piece(vocoder: Vocoder, heard: Latents) -> Way:
    """Decodes the first piece only."""
    return lambda: next(vocoder.pieces(heard.latents, heard.frames, heard.condition, (FIRST_FRAMES,)))


def of_latents(converter: Converter, rows: int, samples: int) -> tuple[Way, Latents]:
    """Returns the conversion up to the frames, and what it gives."""
    sound = torch.from_numpy(tiny.numbers("speech", rows, samples)) * 0.1
    lengths, voice = torch.full((rows,), samples), torch.zeros(1, converter.width)

    def way() -> Latents:
        return converter.latents(sound, lengths, voice, voice, 0.3, noise(rows))

    return way, way()


def converters(folder: Path, options: argparse.Namespace) -> None:
    """Measures the converter."""
    samples = int(options.speech_s * 22050)
    full = load_converter(folder, options.device, torch.float32)
    vocoder = full.network.dec
    latents, heard = of_latents(full, 1, samples)
    _, several = of_latents(full, ROWS, samples)
    ways: dict[str, Way] = {
        "frames to sound, whole": lambda: vocoder(heard.latents, None, heard.condition),
        f"  in pieces of {FIRST_FRAMES}, {FURTHER_FRAMES}, {FURTHER_FRAMES}, … frames": in_pieces(vocoder, heard),
        f"  the first piece of {FIRST_FRAMES} frames": first_piece(vocoder, heard),
        "sound to converted frames": latents,
    }
    # CPUs have no arithmetic of float16.
    for dtype in (torch.bfloat16,) if options.device == "cpu" else (torch.bfloat16, torch.float16):
        half = load_converter(folder, options.device, dtype)
        _, rough = of_latents(half, 1, samples)
        ways[f"frames to sound, {str(dtype).removeprefix('torch.')}"] = lambda half=half, rough=rough: half.network.dec(  # type: ignore[misc]
            rough.latents, None, rough.condition
        )
    if options.compiled:
        compiled = load_converter(folder, options.device, torch.float32)
        compiled.network.dec.compile(dynamic=True)
        ways["frames to sound, compiled"] = lambda: compiled.network.dec(heard.latents, None, heard.condition)
    report("converter, one sentence", measure(ways, options.repeats, options.device), options.speech_s)
    batch: dict[str, Way] = {
        f"{ROWS} sentences, one after another": lambda: [
            vocoder(several.latents[row : row + 1], None, several.condition[row : row + 1]) for row in range(ROWS)
        ],
        f"{ROWS} sentences, in a batch": lambda: vocoder(several.latents, None, several.condition),
    }
    seconds = measure(batch, options.repeats, options.device)
    report("converter, frames to sound", seconds, ROWS * options.speech_s)


def melo(folder: Path, options: argparse.Namespace) -> None:
    """Measures MeloTTS."""
    speaker = load_melo(folder, options.device, torch.float32)
    symbols = torch.arange(round(options.speech_s * 30))[None] % len(speaker.symbols)  # 30 a second, blanks included
    zeros, words = torch.zeros_like(symbols), torch.zeros(1, 768, symbols.shape[1])

    def speak() -> Latents:
        return speaker.infer(
            symbols, zeros, zeros, torch.tensor([symbols.shape[1]]), torch.tensor([0]), noise(1),
            bert=None, ja_bert=words, noise_scale=0.6, noise_scale_w=0.8, length_scale=1, sdp_ratio=0.2,
        )  # fmt: skip

    spoken = speak()
    ways: dict[str, Way] = {
        "frames to sound, whole": lambda: speaker.decode(spoken),
        f"  the first piece of {FIRST_FRAMES} frames": first_piece(speaker.dec, spoken),
        "symbols to frames": speak,
    }
    speech_s = int(spoken.frames[0]) * speaker.hop_samples / speaker.sample_rate_hz
    report(f"MeloTTS, {speech_s:.1f} s of speech", measure(ways, options.repeats, options.device), speech_s)


def main() -> None:
    """Measures both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="where PyTorch computes")
    parser.add_argument("--speech-s", type=float, default=2.0, help="length of the sentences")
    parser.add_argument("--repeats", type=int, default=3, help="how often each way is measured")
    parser.add_argument("--compiled", action="store_true", help="measure torch.compile too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        converters(tiny.write_converter(Path(folder, "v2"), tiny.converter_config("v2", tiny.OFFICIAL)), options)
        melo(tiny.write_melo(Path(folder, "melo"), tiny.melo_config(tiny.OFFICIAL)), options)


if __name__ == "__main__":
    main()
