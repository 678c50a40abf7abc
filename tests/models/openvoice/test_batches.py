"""A sentence is the same alone, in a batch, in pieces and in a stream."""

from pathlib import Path
from typing import Any

import pytest
import torch

from services.tts.openvoice.converter import Converter, load_converter
from services.tts.openvoice.masks import mask_of
from services.tts.openvoice.melo import Melo
from services.tts.openvoice.noise import BLOCK_FRAMES, Gaussian
from services.tts.openvoice.spectrogram import Spectrogram
from services.tts.openvoice.stream import Window
from services.tts.openvoice.synthesizer import BaseSpeaker
from services.tts.openvoice.wavenet import WaveNet
from tests.models.openvoice import cases, tiny
from tests.models.openvoice.cases import ALLOWED, apart, load_speaker, noise

EXACT = 1e-6
"""In double precision: what lies at the edge of a network's reach is heard so faintly."""
DOUBLE = torch.float64
Speaker = BaseSpeaker | Melo


def test_a_batch_converts_as_its_rows_alone(converter: Converter) -> None:
    sound, (source, target) = cases.recording(), cases.tones(converter)
    voices = torch.cat([target, source])
    together = converter.convert(sound, cases.SAMPLES, source, voices, 0.3, noise(1, 2))
    embeddings = converter.embed(sound, cases.SAMPLES)
    for row, length in enumerate(cases.SAMPLES.tolist()):
        one, known = sound[row : row + 1, :length], torch.tensor([length])
        alone = converter.convert(one, known, source, voices[row : row + 1], 0.3, noise(row + 1))
        assert alone.shape == (1, length // converter.hop_samples * converter.hop_samples)
        assert apart(together[row : row + 1, : alone.shape[1]], alone) < ALLOWED
        assert not together[row, alone.shape[1] :].any()
        assert apart(converter.embed(one), embeddings[row : row + 1]) < ALLOWED


def test_a_batch_of_recordings_is_heard_as_each_alone(converter: Converter) -> None:
    # Long enough for several thoughts of the encoder, one per 64 frames.
    sound, lengths = cases.long_recording().repeat(2, 1), torch.tensor([61_500, 20_000])
    together = converter.embed(sound, lengths)
    for row, length in enumerate(lengths.tolist()):
        assert apart(converter.embed(sound[:1, :length]), together[row : row + 1]) < EXACT
    assert apart(together[:1], together[1:]) > ALLOWED


def test_a_batch_speaks_as_its_rows_alone(speaker: Speaker) -> None:
    ids, known = cases.symbols(len(speaker.symbols)), cases.LENGTHS
    bert, ja_bert = cases.features()
    scales = cases.SCALES

    def infer(rows: slice, length: int, drawn: Gaussian) -> Any:
        if isinstance(speaker, BaseSpeaker):
            return speaker.infer(ids[rows, :length], known[rows], cases.SPEAKERS[rows], drawn, **scales)
        return speaker.infer(
            ids[rows, :length],
            ids[rows, :length] % speaker.tones,
            ids[rows, :length] % speaker.languages,
            known[rows],
            cases.SPEAKERS[rows],
            drawn,
            bert=bert[rows, :, :length],
            ja_bert=ja_bert[rows, :, :length],
            **scales,
        )

    together = infer(slice(0, 2), int(known.max()), noise(1, 2))
    for row, length in enumerate(known.tolist()):
        alone = infer(slice(row, row + 1), length, noise(row + 1))
        assert torch.equal(alone.durations, cases.one_of(together, row).durations)
        assert torch.equal(alone.durations.sum(1), alone.frames)
        assert apart(alone.latents, cases.one_of(together, row).latents) < ALLOWED
        sound = speaker.decode(alone)
        assert sound.shape == (1, int(alone.frames) * speaker.hop_samples)
        assert apart(sound, speaker.decode(together)[row : row + 1, : sound.shape[1]]) < ALLOWED


@pytest.mark.parametrize("sizes", [[1], [3, 20], [1000]])
@pytest.mark.parametrize("name", ["base_speaker", "melo"])
def test_pieces_are_the_whole(folders: dict[str, Path], name: str, sizes: list[int]) -> None:
    speaker = load_speaker(folders, name, DOUBLE)
    spoken = cases.speak(speaker, noise(1, 2))
    whole = speaker.decode(spoken)
    pieces = list(speaker.decode_chunks(spoken, sizes))
    assert pieces[0].shape[1] == min(sizes[0], int(spoken.frames.max())) * speaker.hop_samples
    assert apart(torch.cat(pieces, dim=1), whole) < EXACT


def test_a_sample_depends_on_the_frames_within_reach_and_no_others(speaker: Speaker) -> None:
    before, behind = speaker.dec.reach
    place, hop = 40, speaker.hop_samples
    frames = torch.from_numpy(tiny.numbers("frames", 1, speaker.dec.conv_pre.in_channels, 80)).requires_grad_()
    voice = torch.zeros(1, speaker.emb_g.embedding_dim, 1)
    speaker.dec(frames, None, voice)[0, place * hop : (place + 1) * hop].abs().sum().backward()
    (heard,) = frames.grad.abs().sum((0, 1)).nonzero(as_tuple=True)
    assert (place - int(heard.min()), int(heard.max()) - place) == (before, behind)


@pytest.mark.parametrize("piece", [700, 9000])
@pytest.mark.parametrize("name", ["converter_v1", "converter_v2"])
def test_a_stream_of_two_is_the_whole_and_begins_before_the_end(
    folders: dict[str, Path], name: str, piece: int
) -> None:
    converter = load_converter(folders[name], "cpu", DOUBLE)
    # The second ends while the first goes on; what comes behind its end must not be heard.
    sound, lengths = torch.cat([cases.long_recording(), cases.long_recording().flip(1)]), torch.tensor([61_500, 30_100])
    tones = cases.tones(converter)
    whole = converter.convert(sound, lengths, *tones, 0.3, noise(7, 8))
    conversion = converter.stream(lengths, *tones, 0.3, noise(7, 8))
    fed = [conversion.feed(part) for part in sound.split(piece, dim=1)]
    rest = conversion.feed(sound[:, :0], last=True)
    assert apart(torch.cat([*fed, rest], dim=1), whole) < EXACT
    # All but the last feeding, a frame that is not whole, and what the networks look ahead.
    network = converter.network
    ahead = network.enc_q.enc.reach + 2 * 4 * 8 + network.dec.reach[1] + 3
    assert rest.shape[1] <= ahead * converter.hop_samples


@pytest.mark.parametrize("piece", [1, 2, 9])
def test_a_window_gives_each_frame_its_neighbours(piece: int) -> None:
    frames, lengths = torch.arange(1.0, 61.0).view(2, 1, 30), torch.tensor([30, 17])

    def run(near: torch.Tensor, mask: torch.Tensor | None, begin: int, end: int) -> torch.Tensor:
        around = torch.nn.functional.pad(near if mask is None else near * mask, (2, 3))
        return torch.nn.functional.conv1d(around, torch.ones(1, 1, 6))[:, :, begin:end]

    window = Window(run, lengths, 2, 3)
    parts = [window(part, False) for part in frames.split(piece, dim=2)] + [window(frames[:, :, :0], True)]
    ready = [part for part in parts if part is not None]
    assert torch.equal(torch.cat(ready, dim=2), run(frames, mask_of(lengths, 30, frames), 0, 30))
    assert sum(part.shape[2] for part in ready[:-1]) == 30 - 3


def test_a_wavenet_hears_the_frames_within_its_reach_and_no_others() -> None:
    network = WaveNet(4, 3, 2).double()
    frames = torch.from_numpy(tiny.numbers("frames", 1, 4, 40)).double().requires_grad_()
    network(frames, None, torch.ones(1, 2, 1).double())[0, :, 20].abs().sum().backward()
    (heard,) = frames.grad.abs().sum((0, 1)).nonzero(as_tuple=True)
    assert (20 - int(heard.min()), int(heard.max()) - 20) == (network.reach, network.reach) == (6, 6)


def test_noise_is_the_same_however_much_is_drawn_with_whom_and_in_which_pieces() -> None:
    long, short = noise(1, 2).draw(3, 5 * BLOCK_FRAMES + 3), noise(2).draw(3, BLOCK_FRAMES - 1)
    assert torch.equal(long[1:, :, : BLOCK_FRAMES - 1], short)
    strand = noise(1, 2).open(3)
    assert torch.equal(torch.cat([strand.take(count) for count in (0, 7, 90, 226)], dim=2), long)
    drawn = noise(1, 2)
    assert apart(drawn.draw(3, 9), drawn.draw(3, 9)) > 0.1
    assert abs(float(long.mean())) < 0.1
    assert abs(float(long.std()) - 1) < 0.1


def test_each_row_is_mirrored_at_its_own_end() -> None:
    spectrogram = Spectrogram(1024, 256)
    sound = cases.recording()
    frames = spectrogram.of(sound, cases.SAMPLES)
    for row, length in enumerate(cases.SAMPLES.tolist()):
        alone = spectrogram.of(sound[row : row + 1, :length], torch.tensor([length]))
        assert alone.shape == (1, 513, length // 256)
        assert torch.equal(frames[row : row + 1, :, : length // 256], alone)
        assert not frames[row, :, length // 256 :].any()


def test_pieces_without_a_frame_are_refused(speaker: Speaker) -> None:
    spoken = cases.speak(speaker, noise(1, 2))
    for sizes in ([], [3, 0]):
        with pytest.raises(ValueError, match="each of 1 frame or more"):
            next(speaker.decode_chunks(spoken, sizes))
