"""What DICE-Talk costs here, and what computing things once is worth: ratios side by side in one run.

    E3RG_VIDEO_CHECKOUT=… E3RG_VIDEO_WEIGHTS=… python -m benchmarks.dice_talk [--seconds 4]

with the settings of the service. On a machine without a GPU, tiny random weights show that it runs, not how fast:
`python -m tests.models.dice_talk.tiny FOLDER` writes them and prints the settings.
"""

import argparse
import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from services.common.images import decode_image
from services.video.backends.dice_talk import DiceTalkBackend, Settings
from services.video.dice_talk import windows
from services.video.dice_talk.audio import RATE_HZ, AudioEncoder
from services.video.dice_talk.clock import now_s
from services.video.dice_talk.costs import FPS, frames_of, rendered_of
from services.video.dice_talk.emotion import EmotionTokens
from services.video.dice_talk.identity import Identity
from services.video.domain import Expression, Portrait, Progress, Speech

PORTRAIT = Path(__file__).parents[1] / "services" / "memory" / "identities" / "anna" / "portrait.png"
HAPPY = Expression("happy", 1.0)
REPEATS = 3
CHECKOUT_PADDING = 25


def speech(seconds: float) -> NDArray[np.int16]:
    """Noise that swells like syllables."""
    count = round(seconds * RATE_HZ)
    swell = 3000 * (1 + np.sin(np.arange(count) / 700))
    return (
        np.asarray(np.random.default_rng(0).normal(size=count) * swell, np.int64).clip(-32768, 32767).astype(np.int16)
    )


def measure(backend: DiceTalkBackend, ways: Sequence[Callable[[], object]]) -> list[float]:
    """Returns the median seconds of each way, taken in turns."""
    device = backend.renderer.models.device
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(REPEATS):
        for way, times in zip(ways, taken, strict=True):
            started_s = now_s(device)
            way()
            times.append(now_s(device) - started_s)
    return [median(times) for times in taken]


def show_once(backend: DiceTalkBackend, portrait: Portrait, samples: NDArray[np.int16]) -> None:
    """Prints what it saves to project all frames at once, and to keep what does not change."""
    models = backend.renderer.models
    encoder, frames = AudioEncoder(models), frames_of(len(samples) / RATE_HZ)
    heard = encoder.listen(samples, RATE_HZ, frames)
    silence = heard.new_zeros(1, *heard.shape[1:])

    def frame_by_frame() -> None:
        for place in range(len(heard)):
            encoder.project(heard[place : place + 1])
            encoder.project(silence)  # as the checkout's script does

    def feel_each_frame() -> None:
        for _ in range(len(heard)):
            models.emotion_model(prior, retrieval=False)
            models.emotion_model(prior * 0, retrieval=False)

    prior = backend.priors["happy"].to(models.device).view(1, 1, 1, 1, -1)
    kept = EmotionTokens(models, backend.priors)
    rows = (
        ("sound to tokens", frame_by_frame, lambda: encoder.project(heard)),
        ("emotion to tokens", feel_each_frame, lambda: kept.tokens(HAPPY)),
        ("portrait", lambda: backend.prepare(portrait), lambda: None),
    )
    print(f"\n{'of one segment':<20} {'each time':>12} {'once':>12}")
    for name, each, once in rows:
        slow, fast = measure(backend, (each, once))
        print(f"{name:<20} {1000 * slow:>9.1f} ms {1000 * fast:>9.2f} ms")


def show_padding(seconds: float) -> None:
    """Prints the calls of the U-Net in a step, beside those of the checkout's own pipeline."""
    print(f"\n{'calls a step':<20} {'here':>12} {'checkout':>12}")
    for duration_s in sorted({1.0, 2.0, 4.0, 5.0, 6.0, 8.0, seconds}):
        frames = frames_of(duration_s)
        theirs = -(-(frames // 2 + CHECKOUT_PADDING) // windows.WINDOW)
        print(f"{duration_s:>6.1f} s {windows.count(rendered_of(frames)):>24} {theirs:>12}")


def show_tiers(backend: DiceTalkBackend, rig: Identity, samples: NDArray[np.int16]) -> None:
    """Prints, for each tier, what a segment was said to cost and what it did."""
    seconds = len(samples) / RATE_HZ
    print(
        f"\n{'tier':<10} {'said':>9} {'took':>9} {'ratio':>7} {'a call':>9} {'first frame':>12} {'times real time':>16}"
    )
    for quality in backend.qualities:
        said_s = backend.cost_s(seconds, quality)
        performance = backend.perform(rig, HAPPY, 1, quality)
        list(performance.feed(Speech(samples, RATE_HZ, ())))
        started_s, first_s, frames, call_s = time.perf_counter(), 0.0, 0, list[float]()
        last_s = started_s
        for item in performance.finish():
            if not isinstance(item, Progress):
                frames += 1
                first_s = first_s or time.perf_counter() - started_s
            elif not frames:
                call_s.append(time.perf_counter() - last_s)
            last_s = time.perf_counter()
        took_s = time.perf_counter() - started_s
        assert frames == frames_of(seconds)
        print(
            f"{quality:<10} {said_s:>7.2f} s {took_s:>7.2f} s {took_s / said_s:>7.2f} {median(call_s):>7.3f} s"
            f" {first_s:>10.2f} s {took_s / (frames / FPS):>16.1f}"
        )


def main() -> None:
    """Loads, warms up, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of speech, at most the longest segment")
    seconds = parser.parse_args().seconds
    settings = Settings()
    started_s = time.perf_counter()
    backend = DiceTalkBackend(settings)
    loaded_s = time.perf_counter()
    backend.warm_up()
    print(f"{settings.device}, {settings.dtype}: loaded in {loaded_s - started_s:.1f} s, ", end="")
    print(f"warm after {time.perf_counter() - loaded_s:.1f} s more")
    content = PORTRAIT.read_bytes()
    portrait = Portrait(hashlib.sha256(content).hexdigest(), decode_image(content, "portrait"))
    samples = speech(min(seconds, settings.segment_max_s))
    show_once(backend, portrait, samples)
    show_padding(seconds)
    show_tiers(backend, backend.prepare(portrait), samples)


if __name__ == "__main__":
    main()
