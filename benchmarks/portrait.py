"""Measures the portrait renderer: what one frame at 512 px costs of one core, stage by stage, up to the finished film.

    taskset -c 0 python -m benchmarks.portrait [--portrait FILE]… [--emotion CLASS]… [--seconds S] [--presets]

`rig` is once per portrait, and the last line says what it is where an earlier one was kept; `act` says what the face
does, `draw` draws it, `film` is colours, H.264 and MP4, `sound` is AAC, all per frame. Every portrait speaks the same
mouth shapes over the first identity's recorded voice, in every emotion. All times are of the processor, not of the
clock, so that a machine that others use too can be measured on; what others leave in the caches still counts, hence the
median of the frames. "fps" is 1000 / milliseconds of one core for everything. With `--presets` the last reply is
encoded by faster and slower settings of H.264, too.
"""

import argparse
import io
import statistics
import time
import wave
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import av
import cv2
import numpy as np
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from services.common.images import decode_image
from services.memory.domain import ReferenceKind
from services.memory.ready import file_of, ready_identities
from services.video.backends.portrait import FPS, SIZE_PX, PortraitBackend, Settings
from services.video.domain import Expression, Portrait, Speech, VisemeSpan
from services.video.encoding import PRESET, QUALITY_CRF, FragmentedMp4, to_yuv
from services.video.portrait.acting import SCORE, Actor
from services.video.portrait.drawing import Artist
from services.video.portrait.lips import Lips, Loudness
from services.video.portrait.rig import PortraitRig

EMOTIONS = ("neutral", "happy", "angry", "surprised")
# fmt: off
WORDS = (
    "sil", "DD", "aa", "nn", "I", "PP", "O", "SS", "E", "kk", "U",
    "FF", "aa", "TH", "I", "RR", "O", "CH", "E", "PP", "aa", "sil",
)
# fmt: on
VISEME_S = (0.05, 0.13)
SETTINGS = (("ultrafast", "26"), ("superfast", "24"), ("veryfast", "23"), ("faster", "23"))
TARGET_FPS = 60
NO_SOUND = np.empty(0, np.int16)
Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass
class Cost:
    """Milliseconds of the processor, per frame or per call, by stage."""

    spent: dict[str, list[float]] = field(default_factory=dict)

    def of(self, stage: str, call: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Does a part of a stage; returns its result."""
        start_s = time.process_time()
        result = call(*given, **named)
        self.spent.setdefault(stage, []).append(1000 * (time.process_time() - start_s))
        return result

    def median_ms(self, stage: str) -> float:
        """Of one call."""
        return statistics.median(self.spent[stage])

    def sum_ms(self, stage: str) -> float:
        """Of all calls."""
        return sum(self.spent[stage])


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--portrait", action="append", type=Path, help="a picture; the ready identities if none")
    parser.add_argument("--emotion", action="append", choices=tuple(SCORE["emotions"]))
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a reply")
    parser.add_argument("--presets", action="store_true", help="compare settings of H.264, too")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    backend = PortraitBackend(Settings())
    said = _speech(arguments.seconds)
    print(f"{'ms':20}{'rig':>8}{'act':>7}{'draw':>7}{'film':>7}{'sound':>7}{'all':>7}{'fps':>7}{'kbit/s':>8}")
    totals: list[float] = []
    drawn: list[NDArray[np.uint8]] = []
    rigging = Cost()
    kept_bytes: list[int] = []
    for name, portrait in _portraits(arguments.portrait):
        cost = Cost()
        rig = cost.of("rig", backend.prepare, portrait)
        packed = rigging.of("pack", backend.pack, rig)
        rigging.of("unpack", backend.unpack, packed, partial(np.array, portrait.image))
        rigging.spent.setdefault("rig", []).append(cost.median_ms("rig"))
        kept_bytes.append(len(packed))
        for emotion in arguments.emotion or EMOTIONS:
            frames, kbit_s = _reply(cost, rig, emotion, said)
            totals.append(_print_costs(f"{name}, {emotion}", cost, len(frames), kbit_s))
            cost = Cost({"rig": cost.spent["rig"]})
            drawn = frames
    fps = 1000 / statistics.mean(totals)
    print(f"\n{fps:.0f} frames a second of one core, {fps / TARGET_FPS:.1f} times the {TARGET_FPS} that are wanted")
    rig_ms, pack_ms, unpack_ms = (rigging.median_ms(stage) for stage in ("rig", "pack", "unpack"))
    kept = f"{unpack_ms:.0f} ms from what was kept ({statistics.median(kept_bytes) / 1000:.0f} kB, {pack_ms:.0f} ms)"
    print(f"a rig: {rig_ms:.0f} ms from the picture, {kept}: {rig_ms / unpack_ms:.1f} times as long")
    if arguments.presets:
        _compare(drawn)


def _reply(cost: Cost, rig: PortraitRig, emotion: str, said: Speech) -> tuple[list[NDArray[np.uint8]], float]:
    """Draws and films one reply; returns its frames and the film's rate."""
    lips, loudness = Lips(SCORE["visemes"], SCORE["dominance"], FPS), Loudness(FPS)
    for span in said.visemes:
        lips.add(span)
    loudness.add(said.samples, said.sample_rate_hz)
    actor = Actor(Expression(emotion, 1.0), lips, loudness, rig.rest, seed=1, fps=FPS)
    artist = Artist(rig)
    file = FragmentedMp4(SIZE_PX, FPS, said.sample_rate_hz)
    size = sum(map(len, cost.of("sound", file.add, (), said.samples)))
    frames = []
    for index in range(round(loudness.duration_s * FPS)):
        pose = cost.of("act", actor.pose, index)
        frame = cost.of("draw", artist.draw, pose)
        size += sum(map(len, cost.of("film", file.add, (frame,), NO_SOUND)))
        frames.append(frame)
    size += sum(map(len, cost.of("sound", file.finish)))
    return frames, size * 8 / 1000 / loudness.duration_s


def _print_costs(label: str, cost: Cost, frames: int, kbit_s: float) -> float:
    act, draw, film = (cost.median_ms(stage) for stage in ("act", "draw", "film"))
    sound = cost.sum_ms("sound") / frames
    total = act + draw + film + sound
    numbers = f"{act:7.2f}{draw:7.2f}{film:7.2f}{sound:7.2f}{total:7.2f}"
    print(f"{label:20}{cost.median_ms('rig'):8.0f}{numbers}{1000 / total:7.0f}{kbit_s:8.0f}")
    return total


def _compare(frames: Sequence[NDArray[np.uint8]]) -> None:
    """Prints what settings of H.264 cost, need and lose, on frames that are drawn already."""
    pictures = [to_yuv(frame) for frame in frames]
    print(f"\n{'H.264 of':<20}{'ms':>8}{'kbit/s':>8}{'PSNR':>8}")
    for preset, crf in SETTINGS:
        encoder = av.CodecContext.create("libx264", "w")
        encoder.width = encoder.height = SIZE_PX
        encoder.pix_fmt, encoder.time_base, encoder.framerate = "yuv420p", Fraction(1, FPS), Fraction(FPS)
        encoder.gop_size, encoder.thread_count = FPS, 1
        encoder.options = {"preset": preset, "tune": "zerolatency", "crf": crf}
        decoder = av.CodecContext.create("h264", "r")
        cost, size, noise = Cost(), 0, []
        for index, picture in enumerate(pictures):
            picture.pts, picture.time_base = index, Fraction(1, FPS)
            for packet in cost.of("encode", encoder.encode, picture):
                size += packet.size
                noise += [_psnr_db(picture, seen) for seen in decoder.decode(packet)]
        rate = size * 8 / 1000 / (len(pictures) / FPS)
        chosen = "  <- as built" if (preset, crf) == (PRESET, QUALITY_CRF) else ""
        name = f"{preset}, crf {crf}"
        print(f"{name:<20}{cost.median_ms('encode'):8.2f}{rate:8.0f}{statistics.mean(noise):8.1f}{chosen}")


def _psnr_db(one: VideoFrame, other: VideoFrame) -> float:
    """Of the brightness."""
    difference = one.to_ndarray()[:SIZE_PX].astype(float) - other.to_ndarray()[:SIZE_PX]
    return float(10 * np.log10(255**2 / np.mean(difference**2)))


def _portraits(files: Sequence[Path] | None) -> Iterator[tuple[str, Portrait]]:
    pictures = [(file.stem, file.read_bytes()) for file in files or ()]
    ready = ((identity.id, file_of(identity, ReferenceKind.PORTRAIT)) for identity in ready_identities())
    for name, content in pictures or ready:
        yield name, Portrait(name, decode_image(content, "portrait"))


def _speech(duration_s: float) -> Speech:
    with wave.open(io.BytesIO(file_of(next(ready_identities()), ReferenceKind.VOICE))) as file:
        rate_hz = file.getframerate()
        samples = np.frombuffer(file.readframes(-1), np.int16)
    samples = np.resize(samples, round(duration_s * rate_hz))
    random, start_s = np.random.default_rng(1), 0.0
    spans: list[VisemeSpan] = []
    while start_s < duration_s:
        length_s = min(float(random.uniform(*VISEME_S)), duration_s - start_s)
        spans.append(VisemeSpan(WORDS[len(spans) % len(WORDS)], start_s, length_s))
        start_s += length_s
    return Speech(samples, rate_hz, tuple(spans))


if __name__ == "__main__":
    main()
