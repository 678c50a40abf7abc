"""The networks say what upstream's say, with half precision nearly so, and can be compiled."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from services.tts.openvoice.converter import Converter, load_converter
from services.tts.openvoice.melo import Melo
from services.tts.openvoice.spectrogram import Spectrogram
from services.tts.openvoice.spline import inverse
from services.tts.openvoice.synthesizer import BaseSpeaker
from tests.models.openvoice import cases, tiny
from tests.models.openvoice.cases import ALLOWED, FULL, apart, load_speaker, noise

GOLDEN = Path(__file__).with_name("golden")
BINS = {"widths": 10, "heights": 10, "slopes": 9}
Speaker = BaseSpeaker | Melo


def golden(name: str) -> dict[str, Tensor]:
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return {key: torch.from_numpy(array) for key, array in arrays.items()}


# As upstream.


def test_a_converter_says_what_upstream_says(converter: Converter) -> None:
    said = golden(f"converter_{converter.version}")
    embeddings = converter.embed(cases.recording(), cases.SAMPLES)
    sound = cases.convert(converter, cases.Given(cases.ROWS))
    for row in range(2):
        assert apart(embeddings[row : row + 1], said[f"embedding{row}"]) < ALLOWED
        end = said[f"sound{row}"].shape[1]
        assert apart(sound[row : row + 1, :end], said[f"sound{row}"]) < ALLOWED
        assert said[f"sound{row}"].std() > 500 * ALLOWED
        assert not sound[row, end:].any()


def test_a_speaker_says_what_upstream_says(speaker: Speaker) -> None:
    said = golden("melo" if isinstance(speaker, Melo) else "base_speaker")
    spoken = cases.speak(speaker, cases.Given(cases.ROWS))
    sound = speaker.decode(spoken)
    for row in range(2):
        assert torch.equal(cases.one_of(spoken, row).durations, said[f"durations{row}"])
        end = said[f"sound{row}"].shape[1]
        assert apart(sound[row : row + 1, :end], said[f"sound{row}"]) < ALLOWED
        assert said[f"sound{row}"].std() > 500 * ALLOWED
        assert not sound[row, end:].any()


def test_a_checkpoint_of_the_published_size_has_the_published_number_of_weights() -> None:
    config = tiny.converter_config("v2", tiny.OFFICIAL)
    saved = list(tiny.saved(tiny.converter_network(config)))
    assert len(saved) == 486
    assert sum(int(np.prod(shape)) for _, shape in saved) == 32_792_226


def test_the_spline_is_undone() -> None:
    widths, heights, slopes = (torch.from_numpy(tiny.numbers(name, 4, count)) for name, count in BINS.items())
    places = torch.linspace(-5, 5, 401)
    for row in range(4):
        parts = [part[row].expand(401, -1) for part in (widths, heights, slopes)]
        there = _bend(places, *(part[row] for part in (widths, heights, slopes)))
        assert apart(there, places) > 0.1
        assert apart(inverse(there, *parts), places) < ALLOWED
        outside = torch.linspace(5.001, 9, 401)
        assert torch.equal(inverse(outside, *parts), outside)
        assert torch.equal(inverse(-outside, *parts), -outside)


def _bend(places: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor) -> Tensor:
    """The spline itself (Durkan et al., 2019, equation 4), in a plain loop; its ends have the slope 1."""
    shares = [1e-3 + (1 - 1e-2) * torch.softmax(sizes, 0) for sizes in (widths, heights)]
    x, y = (torch.cat([torch.tensor([-5.0]), -5 + 10 * share.cumsum(0)]) for share in shares)
    slope = torch.cat([torch.ones(1), 1e-3 + torch.nn.functional.softplus(slopes), torch.ones(1)])
    there = []
    for place in places:
        at = min(int((place >= x).sum()) - 1, 9)
        mean, share = (y[at + 1] - y[at]) / (x[at + 1] - x[at]), (place - x[at]) / (x[at + 1] - x[at])
        mixed = share * (1 - share)
        rise = (y[at + 1] - y[at]) * (mean * share**2 + slope[at] * mixed)
        there.append(y[at] + rise / (mean + (slope[at + 1] + slope[at] - 2 * mean) * mixed))
    return torch.stack(there)


def test_silence_has_the_magnitude_of_the_floor() -> None:
    frames = Spectrogram(1024, 256).of(torch.zeros(1, 600), torch.tensor([600]))
    torch.testing.assert_close(frames, torch.full((1, 513, 2), 1e-3))


def test_nothing_keeps_gradients(converter: Converter, speaker: Speaker) -> None:
    assert not cases.convert(converter, noise(1, 2)).requires_grad
    assert not speaker.decode(cases.speak(speaker, noise(1, 2))).requires_grad


def test_a_speaker_may_stand_between_others(speaker: Speaker) -> None:
    both = speaker.voice(torch.tensor([0, 1]))
    assert torch.equal(speaker.voice(speaker.emb_g.weight[:2]), both)
    assert apart(speaker.voice(speaker.emb_g.weight[:2].mean(0, keepdim=True)), both.mean(0, keepdim=True)) < 1e-6
    with pytest.raises(ValueError, match=r"speakers: shape \(1, 3\); send \(B, 12\)"):
        speaker.voice(torch.zeros(1, 3))


# Half precision and compilation.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["base_speaker", "melo"])
def test_half_precision_speaks_alike(folders: dict[str, Path], name: str, dtype: torch.dtype) -> None:
    speaker, half = load_speaker(folders, name, FULL), load_speaker(folders, name, dtype)
    spoken = cases.speak(speaker, noise(1, 2))
    again = cases.speak(half, noise(1, 2))
    assert again.latents.dtype == dtype
    assert (again.durations - spoken.durations).abs().max() <= 1
    sound, blurred = speaker.decode(spoken), half.decode(_as(spoken, dtype))
    assert blurred.dtype == torch.float32
    assert float(torch.corrcoef(torch.stack([sound.flatten(), blurred.flatten()]))[0, 1]) > 0.99


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_converts_alike_and_hears_voices_in_full(folders: dict[str, Path], dtype: torch.dtype) -> None:
    full, half = (load_converter(folders["converter_v2"], "cpu", kind) for kind in (FULL, dtype))
    assert torch.equal(full.embed(cases.recording(), cases.SAMPLES), half.embed(cases.recording(), cases.SAMPLES))
    sound, blurred = (cases.convert(one, noise(1, 2)) for one in (full, half))
    assert blurred.dtype == torch.float32
    assert float(torch.corrcoef(torch.stack([sound.flatten(), blurred.flatten()]))[0, 1]) > 0.99


def _as(spoken: Any, dtype: torch.dtype) -> Any:
    return type(spoken)(spoken.latents.to(dtype), spoken.frames, spoken.condition.to(dtype), spoken.durations)


def test_the_vocoder_is_one_graph_for_any_length(folders: dict[str, Path]) -> None:
    speaker = load_speaker(folders, "base_speaker", FULL)
    spoken = cases.speak(speaker, noise(1, 2))
    whole = speaker.decode(spoken)
    speaker.dec.compile(backend="eager", fullgraph=True, dynamic=True)
    assert apart(torch.cat(list(speaker.decode_chunks(spoken, [5, 9])), dim=1), whole) < ALLOWED
    torch.compiler.reset()
