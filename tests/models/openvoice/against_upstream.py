"""Runs upstream's own networks and ours on the same made-up weights and the same input, and compares.

    python -m tests.models.openvoice.against_upstream --openvoice FOLDER --melo FOLDER [--write-golden]

The folders are checkouts of OpenVoice and MeloTTS. Everything is compared at the published sizes and at tiny ones;
`--write-golden` keeps what upstream says at tiny sizes, for the tests. Only their networks are imported; of librosa and
numba, which these import beside, nothing is called.
"""

import argparse
import importlib
import importlib.util
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
from torch import Tensor

from services.tts.openvoice.converter import Network, load_converter
from services.tts.openvoice.melo import Melo, load_melo
from services.tts.openvoice.spectrogram import Spectrogram
from services.tts.openvoice.spline import inverse
from services.tts.openvoice.synthesizer import BaseSpeaker, load_base_speaker
from tests.models.openvoice import tiny
from tests.models.openvoice.cases import (
    LENGTHS,
    ROWS,
    SAMPLES,
    SCALES,
    SPEAKERS,
    TAU,
    Given,
    convert,
    features,
    hear,
    long_recording,
    one_of,
    recording,
    speak,
    symbols,
    tones,
)

ALLOWED = 1e-4
BINS = {"values": 1, "widths": 10, "heights": 10, "slopes": 9}
GOLDEN = Path(__file__).with_name("golden")


class Table:
    """The errors, row by row."""

    def __init__(self) -> None:
        self.worst = 0.0
        self.label = ""

    def row(self, what: str, ours: Tensor, theirs: Tensor) -> None:
        """Prints the largest absolute error, beside the largest value."""
        if ours.shape != theirs.shape:
            raise SystemExit(f"FAIL {what}: shapes {tuple(ours.shape)} and {tuple(theirs.shape)}")
        error = float((ours.double() - theirs.double()).abs().max())
        # Not a number is the worst of all, and no maximum by itself.
        self.worst = max(self.worst, float("inf") if math.isnan(error) else error)
        fate = "ok  " if error <= ALLOWED else "FAIL"
        print(f"{fate} {self.label:24} {what:40} {error:.1e}  of {float(theirs.abs().max()):6.2f}")  # noqa: T201


def open_upstream(openvoice: Path, melo: Path) -> None:
    """Makes both checkouts importable."""
    sys.path[:0] = [str(openvoice), str(melo)]
    for name, functions in {"librosa": (), "librosa.filters": ("mel",), "numba": ("jit",)}.items():
        if name.split(".")[0] in sys.modules or importlib.util.find_spec(name.split(".")[0]) is None:
            module: Any = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)
            for function in functions:
                setattr(module, function, lambda *_, **__: lambda code: code)
            for kind in ("void", "int32", "float32"):
                setattr(module, kind, _Shape())
            sys.modules[name] = module


class _Shape:
    """Stands where upstream writes down what numba shall compile."""

    def __call__(self, *_: Any) -> "_Shape":
        return self

    def __getitem__(self, _: Any) -> "_Shape":
        return self


@contextmanager
def noise_of(case: str) -> Iterator[None]:
    """Gives upstream the noise that `Given` gives us, in the same order."""
    genuine = torch.randn, torch.randn_like
    given = Given([case])
    torch.randn = lambda _, channels, length: given.draw(channels, length)
    torch.randn_like = lambda like: given.draw(*like.shape[1:])
    try:
        yield
    finally:
        torch.randn, torch.randn_like = genuine


def upstream_model(module: str, config: Mapping[str, Any], folder: Path) -> Any:
    """Returns upstream's model with the folder's checkpoint; every key must match."""
    arguments: dict[str, Any] = {}
    if module == "melo.models":
        arguments = {name: config[name] for name in ("num_tones", "num_languages")}
        arguments["segment_size"] = config["train"]["segment_size"] // config["data"]["hop_length"]
    with catch_warnings():
        simplefilter("ignore")  # weight_norm is an old way
        model = importlib.import_module(module).SynthesizerTrn(
            n_vocab=len(config.get("symbols", [])),
            spec_channels=config["data"]["filter_length"] // 2 + 1,
            n_speakers=config["data"]["n_speakers"],
            **arguments,
            **config["model"],
        )
    state = torch.load(folder / "checkpoint.pth", weights_only=True)["model"]
    model.load_state_dict(state, strict=True)
    return model.eval()


def compare_converter(table: Table, folder: Path, config: dict[str, Any]) -> dict[str, Tensor]:
    """Compares a converter; returns what upstream said."""
    theirs, ours = upstream_model("openvoice.models", config, folder), load_converter(folder, "cpu", torch.float32)
    pictures = [_picture(row[None, :length], config["data"]) for row, length in zip(recording(), SAMPLES, strict=True)]
    spectrogram = Spectrogram(config["data"]["filter_length"], config["data"]["hop_length"])
    batch = spectrogram.of(recording(), SAMPLES)
    for place, picture in enumerate(pictures):
        table.row(f"spectrogram, row {place + 1}", batch[place : place + 1, :, : picture.shape[2]], picture)
    embeddings = [theirs.ref_enc(picture.transpose(1, 2)) for picture in pictures]
    table.row("ref_enc", ours.embed(recording(), SAMPLES), torch.cat(embeddings))

    old, new = (tone[..., None] for tone in tones(ours))
    compare_converter_parts(table, theirs, ours.network, pictures[0], (old, new))
    said = {f"embedding{place}": embedding for place, embedding in enumerate(embeddings)}
    heard, whole = hear(ours, Given(ROWS)), convert(ours, Given(ROWS))
    stream = ours.stream(SAMPLES, *tones(ours), TAU, Given(ROWS))
    streamed = torch.cat([stream.feed(part, last) for part, last in _fed(recording(), 900)], dim=1)
    for place, picture in enumerate(pictures):
        with noise_of(ROWS[place]):
            sounds, _, (_, _, frames) = theirs.voice_conversion(picture, _length(picture), old, new, tau=TAU)
        said[f"sound{place}"] = sound = sounds[:, 0]
        row, end, label = slice(place, place + 1), sound.shape[1], f"end to end, row {place + 1}:"
        table.row(f"{label} frames", heard.latents[row, :, : picture.shape[2]], frames)
        table.row(f"{label} sound", whole[row, :end], sound)
        table.row(f"{label} sound in a stream", streamed[row, :end], sound)
    picture = _picture(long_recording(), config["data"])
    table.row("long recording: ref_enc", ours.embed(long_recording()), theirs.ref_enc(picture.transpose(1, 2)))
    with noise_of("long"):
        sound = theirs.voice_conversion(picture, _length(picture), old, new, tau=TAU)[0][:, 0]
    length = torch.tensor([long_recording().shape[1]])
    stream = ours.stream(length, *tones(ours), TAU, Given(["long"]))
    streamed = torch.cat([stream.feed(part, last) for part, last in _fed(long_recording(), 9000)], dim=1)
    table.row("long recording: sound in a stream", streamed, sound)
    return said


def _fed(sound: Tensor, size: int) -> list[tuple[Tensor, bool]]:
    parts = sound.split(size, dim=1)
    return [(part, place == len(parts)) for place, part in enumerate(parts, 1)]


def compare_converter_parts(
    table: Table, theirs: Any, network: Network, picture: Tensor, voices: tuple[Tensor, Tensor]
) -> None:
    """Compares the parts of a converter."""
    old, new = voices
    for name, voice in {"the true voice": old, "zeros": torch.zeros_like(old)}.items():
        with noise_of("listen"):
            _, mean, spread, _ = theirs.enc_q(picture, _length(picture), g=voice)
        table.row(f"enc_q told {name}", network.enc_q(picture, None, voice), torch.cat([mean, spread], 1))
    latents = torch.from_numpy(tiny.numbers("latents", 1, mean.shape[1], 21))
    ones = torch.ones(1, 1, 21)
    table.row("flow", network.flow(latents, None, old), theirs.flow(latents, ones, g=old))
    back = theirs.flow(latents, ones, g=new, reverse=True)
    table.row("flow, inverse", network.flow.inverse(latents, None, new), back)
    for name, voice in {"the true voice": new, "zeros": torch.zeros_like(new)}.items():
        table.row(f"dec told {name}", network.dec(latents, None, voice), theirs.dec(latents, g=voice)[:, 0])


def compare_speaker(table: Table, folder: Path, config: dict[str, Any]) -> dict[str, Tensor]:
    """Compares V1's base speaker or MeloTTS; returns what upstream said."""
    melo = "num_tones" in config
    theirs = upstream_model("melo.models" if melo else "openvoice.models", config, folder)
    ours = (load_melo if melo else load_base_speaker)(folder, "cpu", torch.float32)
    compare_speaker_parts(table, theirs, ours)
    read: list[tuple[Tensor, ...]] = []
    hook = ours.enc_p.register_forward_hook(lambda _, __, output: read.append(output))
    spoken = speak(ours, Given(ROWS))
    hook.remove()
    sound = ours.decode(spoken)
    pieces = torch.cat(list(ours.decode_chunks(spoken, [4, 7])), dim=1)
    said: dict[str, Tensor] = {}
    for place, length in enumerate(LENGTHS.tolist()):
        row, label = slice(place, place + 1), f"row {place + 1}:"
        arguments = _arguments(ours, row, length)
        names = ("x", "x_lengths", "tone", "language", "bert", "ja_bert") if melo else ("x", "x_lengths")
        voice = {"g": theirs.emb_g(SPEAKERS[row])[..., None]} if melo else {}
        text = torch.cat(theirs.enc_p(**{name: arguments[name] for name in names}, **voice)[:3], 1)
        table.row(f"enc_p, {label}", torch.cat(read[0], 1)[row, :, :length], text)
        with noise_of(ROWS[place]):
            sounds, path, _, (frames, *_) = theirs.infer(
                **{name: arguments[name] for name in (*names, "sid")}, **SCALES
            )
        said[f"durations{place}"] = path[0, 0].sum(0)[None].long()
        said[f"sound{place}"] = sounds[:, 0]
        alone, end = one_of(spoken, place), sounds.shape[2]
        table.row(f"end to end, {label} durations", alone.durations, said[f"durations{place}"])
        table.row(f"end to end, {label} frames", alone.latents, frames)
        table.row(f"end to end, {label} sound", sound[row, :end], sounds[:, 0])
        table.row(f"end to end, {label} sound in pieces", pieces[row, :end], sounds[:, 0])
    return said


def compare_speaker_parts(table: Table, theirs: Any, ours: BaseSpeaker | Melo) -> None:
    """Compares the parts of a speaker but its encoder, on one full row."""
    voice = theirs.emb_g(SPEAKERS[:1])[..., None]
    table.row("emb_g", ours.voice(SPEAKERS[:1]), voice)
    hidden = torch.from_numpy(tiny.numbers("hidden", 1, theirs.enc_p.hidden_channels, 29))
    latents = torch.from_numpy(tiny.numbers("latents", 1, theirs.flow.channels, 29))
    ones = torch.ones(1, 1, 29)
    drawn = Given(["times"]).draw(2, 29) * 0.6
    with noise_of("times"):
        times = theirs.sdp(hidden, ones, g=voice, reverse=True, noise_scale=0.6)
    values, *bins = (torch.from_numpy(tiny.numbers(name, 400, count)) for name, count in BINS.items())
    bend = importlib.import_module("openvoice.transforms").piecewise_rational_quadratic_transform
    bent, _ = bend(3 * values[:, 0], *bins, inverse=True, tails="linear", tail_bound=5.0)
    table.row("spline", inverse(3 * values[:, 0], *bins), bent)
    table.row("sdp", ours.sdp(hidden, None, voice, drawn), times)
    table.row("dp", ours.dp(hidden, None, voice), theirs.dp(hidden, ones, g=voice))
    back = theirs.flow(latents, ones, g=voice, reverse=True)
    table.row("flow, inverse", ours.flow.inverse(latents, None, voice), back)
    table.row("dec", ours.dec(latents, None, voice), theirs.dec(latents, g=voice)[:, 0])


def _arguments(ours: BaseSpeaker | Melo, row: slice, length: int) -> dict[str, Tensor]:
    """What upstream is given for one row of the cases."""
    ids = symbols(len(ours.symbols))
    arguments = {"x": ids[row, :length], "x_lengths": LENGTHS[row], "sid": SPEAKERS[row]}
    if isinstance(ours, Melo):
        others = {"tone": ids % ours.tones, "language": ids % ours.languages}
        arguments |= {name: value[row, :length] for name, value in others.items()}
        words = zip(("bert", "ja_bert"), features(), strict=True)
        arguments |= {name: value[row, :, :length] for name, value in words}
    return arguments


def _picture(samples: Tensor, data: Mapping[str, Any]) -> Tensor:
    cut = importlib.import_module("openvoice.mel_processing").spectrogram_torch
    with catch_warnings():
        simplefilter("ignore")  # stft without complex numbers is an old way
        names = ("filter_length", "sampling_rate", "hop_length", "win_length")
        picture: Tensor = cut(samples, *(data[name] for name in names))
    return picture


def _length(picture: Tensor) -> Tensor:
    return torch.tensor([picture.shape[2]])


def main() -> None:
    """Compares all, and fails if anything differs by more than is allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openvoice", type=Path, required=True, help="a checkout of OpenVoice")
    parser.add_argument("--melo", type=Path, required=True, help="a checkout of MeloTTS")
    parser.add_argument(
        "--write-golden", action="store_true", help="keep what upstream says at tiny sizes, for the tests"
    )
    options = parser.parse_args()
    open_upstream(options.openvoice, options.melo)
    torch.set_num_threads(1)
    table = Table()
    for label, sizes in {"tiny": tiny.TINY, "official": tiny.OFFICIAL}.items():
        for name, config, write, compare in (
            ("converter_v1", tiny.converter_config("v1", sizes), tiny.write_converter, compare_converter),
            ("converter_v2", tiny.converter_config("v2", sizes), tiny.write_converter, compare_converter),
            ("base_speaker", tiny.base_speaker_config(sizes), tiny.write_base_speaker, compare_speaker),
            ("melo", tiny.melo_config(sizes), tiny.write_melo, compare_speaker),
        ):
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                table.label = f"{label} {name}"
                said = compare(table, write(Path(folder), config), config)
            if options.write_golden and label == "tiny":
                GOLDEN.mkdir(exist_ok=True)
                kept: dict[str, Any] = {key: value.numpy() for key, value in said.items()}
                np.savez_compressed(GOLDEN / f"{name}.npz", **kept)
    print(f"the largest error is {table.worst:.1e}; allowed is {ALLOWED:.0e}")  # noqa: T201
    if table.worst > ALLOWED:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
