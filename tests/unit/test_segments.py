"""Where a reply is cut into segments."""

import itertools
from collections.abc import AsyncIterator

import numpy as np
import pytest
from numpy.typing import NDArray

from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2 as video
from orchestrator.segments import AROUND_S, Cutter, Segment, cut

RATE_HZ, FPS = 24_000, 25
LEAST_S, MOST_S = 2.0, 4.0


def sound(*spans: tuple[float, float], rate_hz: int = RATE_HZ) -> NDArray[np.int16]:
    """Seconds of a tone, each with the seconds of silence that follow it; the silence has the hiss of a voice."""
    random = np.random.default_rng(3)
    parts = []
    for tone_s, pause_s in spans:
        count, rest = round(tone_s * rate_hz), round(pause_s * rate_hz)
        parts += [6000 * np.sin(np.arange(count) * 2 * np.pi * 180 / rate_hz), 10 * random.standard_normal(rest)]
    return np.concatenate(parts).astype(np.int16)


def renderer(fps: int = FPS, first_s: float = LEAST_S, window_s: float = 0.0) -> video.GetModelResponse:
    return video.GetModelResponse(
        fps=fps, segment_first_s=first_s, segment_min_s=LEAST_S, segment_max_s=MOST_S, segment_window_s=window_s
    )


def cut_up(
    samples: NDArray[np.int16],
    stretch_s: float = 0.4,
    rate_hz: int = RATE_HZ,
    model: video.GetModelResponse | None = None,
) -> list[Segment]:
    """Feeds the cutter as a voice does."""
    cutter, step = Cutter(rate_hz, model or renderer()), round(stretch_s * rate_hz)
    found = []
    for at in range(0, len(samples), step):
        found += list(cutter.add(samples[at : at + step], []))
    return found + list(cutter.finish())


def durations(segments: list[Segment]) -> list[float]:
    return [segment.duration_s for segment in segments]


def expect_whole(segments: list[Segment], samples: NDArray[np.int16], fps: int = FPS) -> None:
    """Nothing is lost, and each segment begins on a frame of video that begins with a sample."""
    np.testing.assert_array_equal(np.concatenate([segment.samples for segment in segments]), samples)
    before = 0
    for number, segment in enumerate(segments, 1):
        assert segment.number == number
        assert segment.first_frame * segment.sample_rate_hz == before * fps
        assert segment.start_s == segment.first_frame / fps
        before += len(segment.samples)


@pytest.mark.parametrize("stretch_s", [0.1, 0.4, 100])
def test_cuts_fall_into_the_first_pauses_that_leave_enough(stretch_s: float) -> None:
    samples = sound((1.0, 0.3), (1.5, 0.3), (1.2, 0.3), (1.4, 0.3), (2.5, 0.4))
    segments = cut_up(samples, stretch_s)
    expect_whole(segments, samples)
    # The pauses after 2.8 s and 6.0 s are the first, 60 ms in and on the next frame of video.
    assert durations(segments) == pytest.approx([2.88, 3.2, 3.12])


def test_the_first_segment_may_be_shorter_than_the_others() -> None:
    samples = sound(*[(0.6, 0.3)] * 12)
    segments = cut_up(samples, model=renderer(first_s=0.5))
    expect_whole(segments, samples)
    assert durations(segments)[0] == pytest.approx(0.68)
    assert min(durations(segments)[1:-1]) >= LEAST_S


@pytest.mark.parametrize("stretch_s", [0.1, 0.4, 100])
def test_of_pauses_after_which_a_segment_costs_the_same_the_last_one_is_taken(stretch_s: float) -> None:
    samples = sound(*[(0.6, 0.3)] * 12)
    # The pauses are heard until 0.84, 1.74, 2.64, 3.54 s … and windows end at 2 s and 4 s of each segment.
    segments = cut_up(samples, stretch_s, model=renderer(first_s=0.5, window_s=2.0))
    expect_whole(segments, samples)
    assert durations(segments) == pytest.approx([1.72, 3.6, 3.48, 2.0])


def test_a_pause_across_the_end_of_a_window_is_cut_there() -> None:
    samples = sound((1.8, 0.5), (1.4, 0.3), (1.0, 0.0))
    assert durations(cut_up(samples, model=renderer(first_s=1.0, window_s=2.0)))[0] == 2.0


def test_a_pause_before_the_end_of_a_window_is_taken_though_silence_follows_for_long() -> None:
    cutter = Cutter(RATE_HZ, renderer(first_s=1.0, window_s=2.0))
    assert not list(cutter.add(sound((1.2, 0.2), (0.2, 2.3)), []))
    (first,) = cutter.add(sound((0.0, 0.3)), [])
    assert first.duration_s == pytest.approx(1.32)


def test_what_surrounds_a_cut_is_quiet() -> None:
    samples = sound(*[(1.3, 0.2)] * 9)
    segments = cut_up(samples)
    assert len(segments) > 2
    around = round(AROUND_S * RATE_HZ)
    at = 0
    for segment in segments[:-1]:
        at += len(segment.samples)
        assert np.abs(samples[at - around : at + around]).max() < 60


def test_the_first_segment_is_told_as_soon_as_speech_follows_its_pause() -> None:
    cutter = Cutter(RATE_HZ, renderer())
    assert not list(cutter.add(sound((2.2, 0.3)), []))  # it may be the end
    (first,) = cutter.add(sound((0.3, 0)), [])
    assert first.duration_s == pytest.approx(2.28)
    assert not list(cutter.add(sound((1.8, 0.3), (0.3, 0)), []))  # too little would be left behind the next
    (second,) = cutter.add(sound((2.0, 0)), [])
    assert second.duration_s == pytest.approx(2.4)


def test_the_pause_at_the_end_makes_no_segment_of_its_own() -> None:
    samples = sound((2.5, 1.0))
    assert durations(cut_up(samples)) == [3.5]


def test_no_segment_but_the_last_is_too_short_and_none_too_long() -> None:
    random = np.random.default_rng(1)
    for _ in range(30):
        samples = sound(*zip(random.uniform(0.2, 6, 8), random.uniform(0.0, 0.5, 8), strict=True))
        segments = cut_up(samples)
        expect_whole(segments, samples)
        assert max(durations(segments)) <= MOST_S
        assert all(seconds >= LEAST_S for seconds in durations(segments)[:-1])


def test_without_a_pause_the_quietest_place_is_taken() -> None:
    samples = sound((3.0, 0), (9.0, 0)).astype(float)
    dip = round(3.0 * RATE_HZ)
    samples[dip - 2000 : dip + 2000] *= 0.3
    (first, *others) = cut_up(samples.astype(np.int16))
    assert first.duration_s == pytest.approx(3.0, abs=0.05)
    assert max(durations([first, *others])) <= MOST_S


def test_a_quiet_voice_is_cut_in_its_pauses_too() -> None:
    samples = (sound((2.4, 0.3), (2.4, 0.3), (2.4, 0.3)) * 0.1).astype(np.int16)
    assert durations(cut_up(samples)) == pytest.approx([2.48, 2.68, 2.94])


def test_silence_is_cut_where_it_must_be() -> None:
    samples = np.zeros(round(9.0 * RATE_HZ), np.int16)
    segments = cut_up(samples)
    expect_whole(segments, samples)
    assert max(durations(segments)) <= MOST_S


def test_no_speech_makes_no_segment() -> None:
    assert cut_up(np.empty(0, np.int16)) == []


@pytest.mark.parametrize(("rate_hz", "fps"), [(22_050, 25), (16_000, 30), (44_100, 24), (24_000, 24)])
def test_segments_begin_on_whole_frames_at_any_rate(rate_hz: int, fps: int) -> None:
    samples = sound(*[(1.7, 0.3)] * 6, rate_hz=rate_hz)
    segments = cut_up(samples, rate_hz=rate_hz, model=renderer(fps=fps))
    assert len(segments) > 2
    expect_whole(segments, samples, fps)
    for segment, following in itertools.pairwise(segments):
        assert np.ceil(segment.duration_s * fps - 1e-6) == following.first_frame - segment.first_frame


async def test_a_sound_across_a_cut_is_in_both_segments() -> None:
    samples = sound((2.2, 0.3), (0.4, 0))
    told = [
        common.Phoneme(symbol="a", viseme="aa", start_s=0.5, duration_s=1.7),
        common.Phoneme(symbol="", viseme="sil", start_s=2.2, duration_s=0.3),
        common.Phoneme(symbol="m", viseme="PP", start_s=2.5, duration_s=0.4),
    ]

    async def speech() -> AsyncIterator[tts.SpeechChunk]:
        half = len(samples) // 2
        yield tts.SpeechChunk(samples=samples[:half].tobytes(), phonemes=told[:1])
        yield tts.SpeechChunk(samples=samples[half:].tobytes(), phonemes=told[1:])

    # The rest is shorter than a segment may be, but nobody knows that when the first is cut.
    first, second = [segment async for segment in cut(speech(), RATE_HZ, renderer())]
    assert [sound.symbol for sound in first.phonemes] == ["a", ""]
    assert [sound.start_s for sound in first.phonemes] == pytest.approx([0.5, 2.2])
    assert [sound.duration_s for sound in first.phonemes] == pytest.approx([1.7, 0.08])
    assert [sound.viseme for sound in second.phonemes] == ["sil", "PP"]
    assert [sound.start_s for sound in second.phonemes] == pytest.approx([0.0, 0.22])
    assert [sound.duration_s for sound in second.phonemes] == pytest.approx([0.22, 0.4])
