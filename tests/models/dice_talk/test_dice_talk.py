"""DICE-Talk on code that stands in for its own, with tiny weights; against_upstream.py does it with DICE-Talk's own."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from services.common.errors import InvalidRequest
from services.video.backends.dice_talk import DiceTalkBackend
from services.video.dice_talk.costs import Costs, frames_of
from services.video.dice_talk.identity import Identity, box_of
from services.video.dice_talk.tiers import TIERS, Tier
from services.video.domain import Expression, Portrait, Progress, Speech
from tests.models.dice_talk.playing import HAPPY, RATE_HZ, Played, noise, play
from tests.models.dice_talk.watching import SCHEDULE_WARNS, watching

pytestmark = SCHEDULE_WARNS

# Whose face it is


def test_what_depends_on_the_portrait_is_computed_once(backend: DiceTalkBackend, portrait: Portrait) -> None:
    models = backend.renderer.models
    with (
        watching(models.vae.encoder) as encoded,
        watching(models.image_encoder) as seen,
        watching(models.pose_guider) as guided,
        watching(models.unet) as denoised,
    ):
        rig = backend.prepare(portrait)
        counts = len(encoded), len(seen), len(guided)
        for quality in ("best", "draft"):
            play(backend, rig, noise(0.04), quality=quality)
        assert (len(encoded), len(seen), len(guided)) == counts == (2, 1, 2)  # once for each size
        assert len(denoised) == 4 + 2
        assert {call.named["spatial_condition"].data_ptr() for call in denoised} == {
            rig.views[128].pose.data_ptr(),
            rig.views[64].pose.data_ptr(),
        }


def test_the_mask_covers_the_face_and_is_a_tenth_larger(rig: Identity, backend: DiceTalkBackend) -> None:
    landmarks = np.array([[10, 20, 5], [30, 60, -5], [20, 40, 0]], np.float32)
    assert box_of(landmarks).tolist() == [9, 18, 31, 62]
    for side, view in rig.views.items():
        assert set(view.mask.unique().tolist()) == {0, 1}
        rows = view.mask[0, 0].any(1).nonzero().flatten() / side
        columns = view.mask[0, 0].any(0).nonzero().flatten() / side
        # The eyes of a framed portrait lie at 0.42 from the top, in the middle.
        assert rows.min() < 0.35
        assert 0.55 < rows.max() < 0.8
        assert float(columns.min() + columns.max()) == pytest.approx(1, abs=0.1)
        assert 0.1 < float(view.mask.mean()) < 0.4


def test_another_portrait_gives_another_film(backend: DiceTalkBackend, rig: Identity) -> None:
    views = {side: replace(view, latents=view.latents.flip(-1)) for side, view in rig.views.items()}
    mirrored = replace(rig, views=views)
    assert (play(backend, mirrored, noise(0.2)).film != play(backend, rig, noise(0.2)).film).any()


def test_a_picture_without_a_face_is_refused(backend: DiceTalkBackend) -> None:
    with pytest.raises(InvalidRequest, match="portrait: no face was found"):
        backend.prepare(Portrait("", np.full((400, 400, 3), 200, np.uint8)))


# The film


@pytest.mark.parametrize("quality", ["good", "draft"])
@pytest.mark.parametrize("samples", [1, 640, 641, 3200, 4000])
def test_a_film_covers_its_speech_to_the_frame(
    backend: DiceTalkBackend, rig: Identity, samples: int, quality: str
) -> None:
    played = play(backend, rig, noise(samples / RATE_HZ), quality=quality)
    assert len(played.frames) == math.ceil(samples / 640)
    assert {(frame.shape, frame.dtype) for frame in played.frames} == {((512, 512, 3), np.dtype(np.uint8))}


def test_speech_in_pieces_is_the_same_speech(backend: DiceTalkBackend, rig: Identity) -> None:
    whole = noise(0.5, 24_000)
    pieces = [replace(whole, samples=part) for part in np.split(whole.samples, [100, 5000, 5000])]
    assert np.array_equal(play(backend, rig, *pieces).film, play(backend, rig, whole).film)


def test_a_segment_without_speech_gives_no_frame_and_a_silent_one_all(backend: DiceTalkBackend, rig: Identity) -> None:
    assert play(backend, rig) == Played([], [])
    assert play(backend, rig, noise(0.0)) == Played([], [])
    silent = play(backend, rig, Speech(np.zeros(4000, np.int16), RATE_HZ, ()))
    assert len(silent.frames) == 7


def test_sound_moves_the_face(backend: DiceTalkBackend, rig: Identity) -> None:
    speech = noise(0.4)
    silent = replace(speech, samples=np.zeros_like(speech.samples))
    assert np.abs(play(backend, rig, speech).film - play(backend, rig, silent).film).mean() > 0.5


def test_emotion_and_intensity_change_the_film(backend: DiceTalkBackend, rig: Identity) -> None:
    def film(face_class: str, intensity: float) -> NDArray[np.int16]:
        return play(backend, rig, noise(0.3), expression=Expression(face_class, intensity)).film

    neutral = film("neutral", 1.0)
    for face_class in ("happy", "angry"):
        assert np.array_equal(film(face_class, 0.0), neutral)
        weak, strong = (np.abs(film(face_class, intensity) - neutral).mean() for intensity in (0.3, 1.0))
        assert 0.1 < weak < strong
    assert np.abs(film("happy", 1.0) - film("angry", 1.0)).mean() > 0.5


def test_the_same_seed_gives_the_same_film_and_another_another(backend: DiceTalkBackend, rig: Identity) -> None:
    film = play(backend, rig, noise(0.3), seed=4).film
    torch.manual_seed(99)
    assert np.array_equal(play(backend, rig, noise(0.3), seed=4).film, film)
    assert not np.array_equal(play(backend, rig, noise(0.3), seed=5).film, film)


def test_after_every_call_it_says_how_far_it_is(backend: DiceTalkBackend, rig: Identity) -> None:
    played = play(backend, rig, noise(1.0))
    # 13 rendered frames are two windows, at 2 steps, and two chunks of pictures.
    assert len(played.progress) == 2 * 2 + 2
    assert played.progress == sorted(set(played.progress))
    assert 0 < played.progress[0] < played.progress[3] < 1
    assert played.progress[-1] == 1


@pytest.mark.parametrize("calls", [1, 3])
def test_a_film_that_is_called_off_stops_at_the_call_that_runs(
    backend: DiceTalkBackend, rig: Identity, calls: int
) -> None:
    models = backend.renderer.models
    performance = backend.perform(rig, HAPPY, 1, "good")
    list(performance.feed(noise(1.0)))
    with watching(models.unet) as denoised, watching(models.vae.decoder) as decoded:
        items = performance.finish()
        for _ in range(calls):
            assert isinstance(next(items), Progress)
        items.close()  # type: ignore[attr-defined]
        assert list(items) == []
        assert (len(denoised), len(decoded)) == (calls, 0)
    assert play(backend, rig, noise(0.1)).frames  # and the next one is rendered


def test_pictures_come_as_they_are_decoded(backend: DiceTalkBackend, rig: Identity) -> None:
    performance = backend.perform(rig, HAPPY, 1, "draft")
    list(performance.feed(noise(1.0)))
    with watching(backend.renderer.models.vae.decoder) as decoded:
        items = performance.finish()
        next(item for item in items if not isinstance(item, Progress))
        assert len(decoded) == 1
        assert len(list(items)) > 1
        assert len(decoded) == 2


def test_a_tier_says_how_many_steps_at_which_size(backend: DiceTalkBackend, rig: Identity) -> None:
    for name, tier in backend.tiers.items():
        with watching(backend.renderer.models.unet) as calls:
            played = play(backend, rig, noise(0.2), quality=name)
        assert len(calls) == tier.steps * 2  # three rendered frames and those that idle: two windows
        assert {call.positional[0].shape[-1] for call in calls} == {tier.side_px // 8}
        pairs = np.abs(np.diff(played.film, axis=0)[::2]).sum()
        assert (pairs > 0) == tier.interpolated  # else each frame is shown twice


def test_the_tiers_of_the_project_are_told_best_first() -> None:
    assert [tier.steps for tier in TIERS.values()] == sorted((tier.steps for tier in TIERS.values()), reverse=True)
    assert TIERS["best"] == Tier(steps=25, side_px=512, interpolated=True)


# What is refused


def feeding(backend: DiceTalkBackend, rig: Identity, speech: Sequence[Speech]) -> Iterator[object]:
    performance = backend.perform(rig, HAPPY, 1, "draft")
    for part in speech:
        yield from performance.feed(part)


@pytest.mark.parametrize(
    ("speech", "text"),
    [
        ([noise(2.0), noise(2.01)], "speech.samples: 4.01 s so far; send at most 4 s, a longer reply in segments"),
        ([noise(0.1), noise(0.1, 8000)], "speech.sample_rate_hz: 8000; a segment has one rate above 0"),
        ([Speech(np.zeros(1, np.int16), 0, ())], "speech.sample_rate_hz: 0; a segment has one rate above 0"),
    ],
)
def test_speech_that_cannot_be_one_segment_is_refused(
    backend: DiceTalkBackend, rig: Identity, speech: list[Speech], text: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        list(feeding(backend, rig, speech))
    assert str(refused.value) == text


def test_the_longest_segment_is_taken_whole(backend: DiceTalkBackend, rig: Identity) -> None:
    assert len(play(backend, rig, noise(4.0)).frames) == 100


def test_a_rig_of_another_back_end_is_refused(backend: DiceTalkBackend) -> None:
    with pytest.raises(TypeError, match="a rig of str cannot be used by DICE-Talk"):
        backend.perform("rig", HAPPY, 1, "draft")


# What it costs


def test_the_cost_is_steps_times_windows_and_the_pictures() -> None:
    costs, tier = Costs(), Tier(steps=10, side_px=512, interpolated=True)
    costs.add_audio(0.25)
    costs.add_call(tier, 2.0)
    costs.add_decoding(tier, 5, 0.5, 0.2)
    # 4 s are 100 frames, 51 of them rendered, in three windows with those that idle.
    assert costs.reckon(4.0, tier) == pytest.approx(0.25 + 10 * 3 * 2.0 + 51 * 0.1)
    doubled = tier.model_copy(update={"interpolated": False})
    assert costs.reckon(4.0, doubled) == pytest.approx(0.25 + 10 * 3 * 2.0 + 51 * 0.06)
    assert costs.denoising_part(4.0, tier) == pytest.approx((0.25 + 60) / (0.25 + 60 + 5.1))
    assert costs.reckon(0.0, tier) == 0
    assert frames_of(1.0) == frames_of(1.0 + 1e-9) == 25


def test_the_cost_follows_what_is_measured() -> None:
    costs, tier = Costs(), Tier(steps=10, side_px=512, interpolated=True)
    costs.add_call(tier, 1.0)
    first = costs.reckon(2.0, tier)
    for _ in range(20):
        costs.add_call(tier, 3.0)
    assert costs.reckon(2.0, tier) == pytest.approx(3 * first, rel=0.02)
    assert costs.reckon(2.0, tier.model_copy(update={"side_px": 384})) == 0


def test_once_warm_every_tier_has_a_cost_that_grows_with_the_speech(backend: DiceTalkBackend) -> None:
    for quality in backend.qualities:
        costs = [backend.cost_s(duration_s, quality) for duration_s in (0.5, 2.5, 4.0)]
        assert 0 < costs[0] < costs[1] < costs[2]
