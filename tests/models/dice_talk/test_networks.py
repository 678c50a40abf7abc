"""What is between the networks: windows, guidance, hearing, feeling, pictures."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from diffusers import EulerDiscreteScheduler
from numpy.typing import NDArray

from services.video.backends.dice_talk import DiceTalkBackend
from services.video.dice_talk import windows
from services.video.dice_talk.audio import RATE_HZ, AudioEncoder, at_16_khz
from services.video.dice_talk.decoding import CHUNK_MAX, Decoder, chunks
from services.video.dice_talk.denoising import Scene, guide, noise_of
from services.video.dice_talk.emotion import EmotionTokens
from services.video.dice_talk.identity import Identity
from services.video.dice_talk.models import HEARD, Models
from services.video.domain import Expression
from tests.models.dice_talk.watching import SCHEDULE_WARNS, watching

pytestmark = SCHEDULE_WARNS
LENGTHS = range(1, 130)
STEPS = range(25)


@pytest.fixture(scope="module")
def models(backend: DiceTalkBackend) -> Models:
    return backend.renderer.models


@pytest.fixture(scope="module")
def scene(backend: DiceTalkBackend, rig: Identity) -> Scene:
    return backend.renderer.scene(rig, Expression("happy", 0.8), noise(0.5), RATE_HZ, backend.tiers["draft"])


def noise(seconds: float, rate_hz: int = RATE_HZ) -> NDArray[np.int16]:
    samples = np.random.default_rng(1).normal(size=round(seconds * rate_hz)) * 4000
    return samples.clip(-32768, 32767).astype(np.int16)


# Windows


def test_with_the_padding_every_frame_is_denoised_exactly_once_a_step() -> None:
    for frames in LENGTHS:
        total = frames + windows.padding(frames)
        for step in STEPS:
            at = windows.windows(total, step)
            assert at.shape == (windows.count(frames), 25)
            assert sorted(at.flatten().tolist()) == list(range(total))


def test_no_window_joins_the_end_of_a_film_to_its_beginning() -> None:
    def joined(frames: int, total: int) -> bool:
        every = torch.cat([windows.windows(total, step) for step in STEPS])
        return any({0, frames - 1} <= set(window.tolist()) for window in every)

    for frames in range(26, 130):
        assert not joined(frames, frames + windows.padding(frames))
    assert joined(52, 52 + 23)  # one idle frame less than the least


def test_windows_begin_seven_frames_earlier_at_each_step_and_go_round() -> None:
    assert windows.windows(50, 0)[:, 0].tolist() == [0, 25]
    assert windows.windows(50, 1)[:, 0].tolist() == [43, 18]
    assert windows.windows(50, 4)[:, 0].tolist() == [47, 22]
    assert windows.windows(50, 1)[0].tolist() == [*range(43, 50), *range(18)]


def test_a_film_never_takes_more_calls_than_with_the_padding_of_the_checkout() -> None:
    assert all(windows.count(frames) <= math.ceil((frames + 25) / 25) for frames in LENGTHS)
    assert [windows.count(frames) for frames in (1, 2, 51, 101)] == [1, 2, 3, 5]


# Denoising


@torch.inference_mode()  # type: ignore[untyped-decorator]
def naively(models: Models, scene: Scene, steps: int, seed: int) -> torch.Tensor:
    """A film denoised as the published pipeline does: each window and branch by itself, averaged after the step."""
    frames, view = len(scene.audio), scene.view
    total = frames + scene.padding
    schedule = EulerDiscreteScheduler.from_config(models.schedule)
    schedule.set_timesteps(steps)
    film = view.latents * models.vae.config.scaling_factor
    film = film + schedule.sigmas[0] * noise_of(seed, total, tuple(view.latents.shape))
    nothing, width = torch.zeros_like(view.latents), scene.embedding.shape[-1]
    for step, level in enumerate(schedule.timesteps):
        sums, counts = torch.zeros_like(film), torch.zeros(total)
        for first in range(0, total, 25):
            indices = [(first - step * 7 % 25 + place) % total for place in range(25)]
            said = []
            for branch in range(3):
                sees, hears = branch > 0, branch > 1
                picture = view.latents if sees else nothing
                told = [hears and index < frames for index in indices]
                rows = zip(told, indices, strict=True)
                sound = torch.stack([scene.audio[index] if one else scene.silence for one, index in rows])
                feeling = torch.stack([scene.emotion if one else scene.no_emotion for one in told])
                schedule._step_index = step
                noisy = schedule.scale_model_input(film[indices], level)
                answer = models.unet(
                    torch.cat([noisy, picture.expand(25, -1, -1, -1)], 1)[None],
                    level,
                    encoder_hidden_states=((scene.embedding * sees).expand(25, 1, width), [sound, feeling]),
                    spatial_condition=view.pose,
                    cross_attention_kwargs={"ip_adapter_masks": [view.mask] * 2},
                    added_time_ids=torch.tensor([[12.5, 8, 16]]),
                    return_dict=False,
                )
                said.append(answer[0][0])
            blind, seen, full = said
            estimate = blind + 3 * (seen - blind) + 6 * (full - seen)
            schedule._step_index = step
            after = schedule.step(estimate, level, film[indices]).prev_sample
            for place, index in enumerate(indices):
                sums[index] += after[place]
                counts[index] += 1
        film = sums / counts[:, None, None, None]
    return film


@pytest.mark.parametrize("padding", [17, 29])
def test_the_film_is_that_of_a_naive_loop(backend: DiceTalkBackend, models: Models, scene: Scene, padding: int) -> None:
    # 7 rendered frames: with 17 idle ones too few for a window of their own, with 29 some are in two windows.
    padded = replace(scene, padding=padding)
    calls = list(backend.renderer.denoiser.denoise(padded, 3, seed=5))
    total = len(scene.audio) + padding
    assert [call.done for call in calls] == pytest.approx(np.linspace(0, 1, 3 * math.ceil(total / 25) + 1)[1:])
    film = calls[-1].latents
    expected = naively(models, padded, 3, seed=5)
    assert expected.std() > 0.1
    torch.testing.assert_close(film, expected, rtol=0, atol=2e-4)


def test_three_branches_are_told_nothing_the_portrait_and_all(
    backend: DiceTalkBackend, models: Models, scene: Scene
) -> None:
    with watching(models.unet) as calls:
        next(iter(backend.renderer.denoiser.denoise(scene, 1, seed=0)))
    (call,) = calls
    picture, frames = scene.view.latents, len(scene.audio)
    given = call.positional[0]
    assert given.shape == (3, 25, 8, *picture.shape[1:])
    torch.testing.assert_close(given[:, :, :4], given[:1, :, :4].expand(3, -1, -1, -1, -1))
    assert not given[0, :, 4:].any()
    torch.testing.assert_close(given[1:, :, 4:], picture.expand(2, 25, -1, -1, -1))
    clip, (sound, feeling) = call.named["encoder_hidden_states"]
    assert not clip[:25].any()
    torch.testing.assert_close(clip[25:], scene.embedding.expand(50, 1, -1))
    torch.testing.assert_close(sound[:50], scene.silence.expand(50, -1, -1))
    torch.testing.assert_close(sound[50 : 50 + frames], scene.audio)
    torch.testing.assert_close(sound[50 + frames :], scene.silence.expand(25 - frames, -1, -1))
    torch.testing.assert_close(feeling[:50], scene.no_emotion.expand(50, -1, -1))
    torch.testing.assert_close(feeling[50 : 50 + frames], scene.emotion.expand(frames, -1, -1))
    torch.testing.assert_close(feeling[50 + frames :], scene.no_emotion.expand(25 - frames, -1, -1))
    assert call.named["added_time_ids"].tolist() == [[12.5, 8, 16]] * 3
    masks = call.named["cross_attention_kwargs"]["ip_adapter_masks"]
    assert [mask is scene.view.mask for mask in masks] == [True, True]


def test_guidance_leads_from_nothing_over_the_portrait_to_all() -> None:
    blind, portrait, full = torch.tensor([[1.0], [10.0], [100.0]])
    assert guide(blind, portrait, full).item() == 1 + 3 * 9 + 6 * 90


def test_a_frame_begins_with_the_same_noise_in_films_of_any_length() -> None:
    short, long = noise_of(7, 10, (4, 3, 3)), noise_of(7, 60, (4, 3, 3))
    assert torch.equal(short, long[:10])
    assert not torch.equal(noise_of(8, 10, (4, 3, 3)), short)


# Hearing


@pytest.mark.parametrize("frames", [1, 2, 25, 40, 41])
def test_all_frames_are_projected_at_once_as_they_are_one_by_one(models: Models, frames: int) -> None:
    encoder = AudioEncoder(models)
    heard = encoder.listen(noise(frames / 25), RATE_HZ, frames)
    with watching(models.audio_projection) as calls:
        tokens = encoder.project(heard)
    assert len(calls) == 1
    assert len(tokens) == frames // 2 + 1
    singly = torch.cat([encoder.project(heard[place : place + 1]) for place in range(len(heard))])
    torch.testing.assert_close(tokens, singly, rtol=0, atol=1e-5)
    assert (tokens != tokens[0]).any() or frames == 1


def test_a_frame_hears_from_80_ms_before_it_to_120_ms_after_its_beginning(models: Models) -> None:
    sound, frames = noise(1.0), 25
    mel = models.mel(sound / np.float32(32768), sampling_rate=RATE_HZ, return_tensors="pt").input_features
    layers = torch.stack(models.whisper(mel, output_hidden_states=True).hidden_states, 2)[0]
    heard = AudioEncoder(models).listen(sound, RATE_HZ, frames)
    assert heard.shape == (13, HEARD, *layers.shape[1:])
    torch.testing.assert_close(heard[5], layers[16:26], rtol=0, atol=1e-5)  # at 400 ms: from 320 ms to 520 ms
    assert not heard[0, :4].any()
    torch.testing.assert_close(heard[0, 4:], layers[:6], rtol=0, atol=1e-5)
    torch.testing.assert_close(heard[12, :6], layers[44:50], rtol=0, atol=1e-5)
    assert not heard[12, 6:].any()


def test_what_is_heard_are_the_layers_of_whisper_the_last_one_normalised(models: Models) -> None:
    mel = torch.randn(1, 80, 3000)
    layers = models.whisper(mel, output_hidden_states=True).hidden_states
    after = models.whisper.layers[0](layers[0], None)
    torch.testing.assert_close(layers[1], after)
    torch.testing.assert_close(layers[2], models.whisper.layer_norm(models.whisper.layers[1](after, None)))
    assert len(layers) == 3


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
def test_speech_of_any_rate_is_heard_alike(rate_hz: int) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(rate_hz) / rate_hz) * 8000
    wave = at_16_khz(tone.astype(np.int16), rate_hz)
    expected = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000) * 8000 / 32768
    assert wave.dtype == np.float32
    assert abs(len(wave) - 16_000) <= 32
    middle = slice(1000, 15_000)
    assert np.abs(wave[middle] - expected[middle]).max() < 0.02


def test_speech_shorter_than_a_sample_at_16_khz_is_heard_as_one() -> None:
    assert at_16_khz(np.full(1, 9000, np.int16), 48_000).shape == (1,)


# Feeling


def test_intensity_leads_from_the_prior_of_neutral_to_that_of_the_class(
    backend: DiceTalkBackend, models: Models
) -> None:
    emotions = EmotionTokens(models, backend.priors)
    neutral = emotions.tokens(Expression("neutral", 1.0))
    assert torch.equal(emotions.tokens(Expression("angry", 0.0)), neutral)
    halfway = (backend.priors["neutral"] + backend.priors["angry"]) / 2
    half = models.emotion_model(halfway.view(1, 1, 1, 1, -1), retrieval=False)[0][0, 0]
    torch.testing.assert_close(emotions.tokens(Expression("angry", 0.5)), half)
    far = [
        float((emotions.tokens(Expression("angry", intensity)) - neutral).norm()) for intensity in (0.2, 0.6, 0.9, 1.0)
    ]
    assert far == sorted(far)
    assert far[0] > 0.01


def test_an_emotion_is_computed_once(backend: DiceTalkBackend, models: Models) -> None:
    with watching(models.emotion_model) as calls:
        emotions = EmotionTokens(models, backend.priors)
        assert len(calls) == 9  # eight classes, and none
        for _ in range(3):
            emotions.tokens(Expression("sad", 1.0))
            emotions.tokens(Expression("sad", 0.51))
            emotions.tokens(Expression("sad", 0.49))
        assert len(calls) == 10
    assert calls[0].named == {"retrieval": False}
    assert not calls[0].positional[0].any()


# Pictures


def test_pictures_are_decoded_in_chunks_of_about_one_size() -> None:
    assert chunks(10) == [10]
    assert chunks(51) == [9, 9, 9, 8, 8, 8]
    for count in LENGTHS:
        sizes = chunks(count)
        assert sum(sizes) == count
        assert len(sizes) == math.ceil(count / CHUNK_MAX)
        assert max(sizes) - min(sizes) <= 1


def test_between_two_frames_lies_the_one_that_is_interpolated(models: Models) -> None:
    latents = torch.randn(12, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    decoder = Decoder(models, 64)
    single = [frame for part in decoder.decode(latents, False) for frame in part.frames]
    with watching(models.interpolator.flownet) as interpolated:
        film = [frame for part in decoder.decode(latents, True) for frame in part.frames]
    assert (len(single), len(film)) == (24, 23)
    # The checkout's network keeps something for every size of a batch.
    assert [len(call.positional[0]) for call in interpolated] == [1] * 11
    rendered = np.stack(single[::2])
    assert np.array_equal(rendered, single[1::2])
    assert np.array_equal(rendered, film[::2])  # across the border of two chunks as well
    pictures = torch.from_numpy(rendered).permute(0, 3, 1, 2) / 255
    between = models.interpolator.inference(pictures[:-1], pictures[1:]).permute(0, 2, 3, 1) * 255
    assert np.abs(np.stack(film[1::2]) - between.numpy()).max() < 1.5


def test_pictures_of_any_size_are_scaled_to_the_films(models: Models) -> None:
    latents = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0)) * 0.1
    (small,) = Decoder(models, 64).decode(latents, False)
    (large,) = Decoder(models, 512).decode(latents, False)
    assert large.frames[0].shape == (512, 512, 3)
    shrunk = large.frames[0].reshape(64, 8, 64, 8, 3).mean((1, 3))
    assert np.corrcoef(shrunk.flatten(), small.frames[0].flatten())[0, 1] > 0.95
