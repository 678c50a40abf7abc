import io
import itertools
import re
import struct

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from services.common.media import CHUNK_BYTES_MAX
from services.video.encoding import FragmentedMp4, mime_type_of, to_yuv

SIZE_PX, FPS = 128, 25


def frames(count: int, size_px: int = SIZE_PX) -> list[NDArray[np.uint8]]:
    """A white bar on grey that moves a little to the right each frame."""
    images = []
    for index in range(count):
        image = np.full((size_px, size_px, 3), 90, np.uint8)
        image[:, (4 * index) % size_px : (4 * index) % size_px + 8] = 240
        images.append(image)
    return images


def tone(rate_hz: int, duration_s: float) -> NDArray[np.int16]:
    return (9000 * np.sin(2 * np.pi * 220 * np.arange(round(rate_hz * duration_s)) / rate_hz)).astype(np.int16)


def film(rate_hz: int, duration_s: float) -> list[bytes]:
    """A film fed as a performance feeds it: a piece of sound, then the frames that it completes."""
    movie = FragmentedMp4(SIZE_PX, FPS, rate_hz)
    sound, chunks = tone(rate_hz, duration_s), []
    images = frames(int(np.ceil(duration_s * FPS)))
    for index, image in enumerate(images):
        chunks += movie.add([image], sound[index * rate_hz // FPS : (index + 1) * rate_hz // FPS])
    return chunks + movie.finish()


def boxes(data: bytes) -> list[str]:
    kinds, place = [], 0
    while place < len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        kinds.append(kind.decode())
        place += size
    assert place == len(data)
    return kinds


@pytest.mark.parametrize(
    ("rate_hz", "duration_s"),
    [(24_000, 2.0), (24_000, 1.37), (22_050, 1.01), (16_000, 0.5), (48_000, 1.26), (8_000, 0.3)],
)
def test_the_film_decodes_and_sound_and_picture_end_together(rate_hz: int, duration_s: float) -> None:
    data = b"".join(film(rate_hz, duration_s))

    with av.open(io.BytesIO(data), mode="r") as movie:
        pictures = [frame.to_ndarray(format="rgb24") for frame in movie.decode(video=0)]
    with av.open(io.BytesIO(data), mode="r") as movie:
        sound = np.concatenate([frame.to_ndarray() for frame in movie.decode(audio=0)], axis=1)
        rate = movie.streams.audio[0].rate

    assert len(pictures) == int(np.ceil(duration_s * FPS))
    assert abs(len(pictures) / FPS - sound.shape[1] / rate) <= 0.040
    assert np.sqrt((sound**2).mean()) > 0.1


def test_pictures_and_colours_survive() -> None:
    movie = FragmentedMp4(SIZE_PX, FPS, 24_000)
    red = np.zeros((SIZE_PX, SIZE_PX, 3), np.uint8)
    red[:] = (200, 60, 50)
    data = b"".join(movie.add([red] * 10, tone(24_000, 0.4)) + movie.finish())

    with av.open(io.BytesIO(data), mode="r") as opened:
        picture = next(opened.decode(video=0)).to_ndarray(format="rgb24")

    assert np.abs(picture.astype(int) - red).max() < 12


def test_the_first_chunk_is_the_init_segment_and_the_others_are_fragments_in_order() -> None:
    chunks = film(24_000, 2.0)

    assert boxes(chunks[0]) == ["ftyp", "moov"]
    for chunk in chunks[1:-1]:
        assert boxes(chunk) == ["moof", "mdat"]
    numbers = [struct.unpack_from(">I", chunk, chunk.index(b"mfhd") + 8)[0] for chunk in chunks[1:-1]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_media_comes_early_and_often() -> None:
    movie = FragmentedMp4(SIZE_PX, FPS, 24_000)
    sound = tone(24_000, 1.0)
    arrived = [movie.add([image], sound[i * 960 : (i + 1) * 960]) for i, image in enumerate(frames(25))]
    movie.close()

    assert len(arrived[0]) == 1  # the init segment, at once
    media = [index for index, chunks in enumerate(arrived) if index and chunks]
    assert media[0] <= 6
    assert max(np.diff(media)) <= 8


def test_chunks_are_small_enough_for_a_message() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (12, 512, 512, 3)).astype(np.uint8)
    movie = FragmentedMp4(512, FPS, 24_000)
    chunks = movie.add(noise, tone(24_000, 0.48)) + movie.finish()

    assert sum(len(chunk) for chunk in chunks) > CHUNK_BYTES_MAX
    assert max(len(chunk) for chunk in chunks) <= CHUNK_BYTES_MAX
    with av.open(io.BytesIO(b"".join(chunks)), mode="r") as opened:
        assert len(list(opened.decode(video=0))) == 12


def test_the_mime_type_names_the_codecs_that_are_in_the_file() -> None:
    init = film(24_000, 0.04)

    parameters = init[0][init[0].index(b"avcC") + 4 :]
    assert mime_type_of(SIZE_PX, FPS) == f'video/mp4; codecs="avc1.{parameters[1:4].hex().upper()}, mp4a.40.2"'


def test_sound_shorter_than_the_pictures_is_filled_up() -> None:
    movie = FragmentedMp4(SIZE_PX, FPS, 24_000)
    data = b"".join(movie.add(frames(20), tone(24_000, 0.2)) + movie.finish())

    with av.open(io.BytesIO(data), mode="r") as opened:
        samples = sum([frame.samples for frame in opened.decode(audio=0)])

    assert abs(samples / 48_000 - 0.8) <= 0.040


# Segments

CUTS = (0, 37, 88, 123, 160)
"""Frames at which a film is cut: none of them begins on the grid of the sound's frames."""


def sound_with_pauses(rate_hz: int, pause_s: float) -> NDArray[np.int16]:
    """A tone that is silent around each cut."""
    sound = tone(rate_hz, CUTS[-1] / FPS)
    for cut in CUTS[1:-1]:
        middle = cut * rate_hz // FPS
        sound[middle - round(pause_s / 2 * rate_hz) : middle + round(pause_s / 2 * rate_hz)] = 0
    return sound


def segment(first: int, end: int, sound: NDArray[np.int16], rate_hz: int) -> list[bytes]:
    """The frames from one to another, each as bright as its number, with their sound."""
    movie = FragmentedMp4(SIZE_PX, FPS, rate_hz, first)
    chunks = movie.add((), sound[first * rate_hz // FPS : end * rate_hz // FPS])
    for index in range(first, end):
        chunks += movie.add([np.full((SIZE_PX, SIZE_PX, 3), index, np.uint8)], np.empty(0, np.int16))
    return chunks + movie.finish()


def in_segments(sound: NDArray[np.int16], rate_hz: int) -> bytes:
    parts = [segment(first, end, sound, rate_hz) for first, end in itertools.pairwise(CUTS)]
    return b"".join(chunk for part in parts for chunk in part)


def pictures_of(data: bytes) -> list[tuple[float, float]]:
    """Time and brightness of each frame."""
    with av.open(io.BytesIO(data), mode="r") as movie:
        return [
            (float(frame.time or 0), float(frame.to_ndarray(format="rgb24").mean())) for frame in movie.decode(video=0)
        ]


def sound_of(data: bytes) -> tuple[list[int], NDArray[np.float32]]:
    """Times of the frames of sound, in samples, and all samples."""
    with av.open(io.BytesIO(data), mode="r") as movie:
        frames = [(frame.pts or 0, frame.to_ndarray()[0]) for frame in movie.decode(audio=0)]
    return [pts for pts, _ in frames], np.concatenate([samples for _, samples in frames])


@pytest.mark.parametrize("rate_hz", [24_000, 22_050, 16_000, 48_000])
def test_segments_are_the_film_in_one_piece(rate_hz: int) -> None:
    sound = sound_with_pauses(rate_hz, 0.16)
    whole = b"".join(segment(0, CUTS[-1], sound, rate_hz))
    cut = in_segments(sound, rate_hz)

    seen = pictures_of(cut)
    assert [time for time, _ in seen] == pytest.approx([index / FPS for index in range(CUTS[-1])])
    assert max(abs(level - index) for index, (_, level) in enumerate(seen)) < 3
    times, heard = sound_of(cut)
    assert times == [1024 * index for index in range(len(times))]
    _, expected = sound_of(whole)
    assert len(heard) == len(expected)
    # Two encodings of the same sound differ by their noise; a loud sample here is 0.27.
    assert np.abs(heard - expected).max() < 0.02


def test_a_cut_within_a_sound_loses_a_moment_but_does_not_click() -> None:
    sound = tone(24_000, CUTS[-1] / FPS)
    _, heard = sound_of(in_segments(sound, 24_000))
    _, expected = sound_of(b"".join(segment(0, CUTS[-1], sound, 24_000)))

    assert np.abs(np.diff(heard)).max() < 3 * np.abs(np.diff(expected)).max()
    away = np.ones(len(heard), bool)
    for cut in CUTS[1:-1]:
        at = cut * 48_000 // FPS
        away[at - 1024 : at + 3 * 1024] = False  # what is faded out, left out and faded in, and its echo
    assert np.abs(heard - expected)[away].max() < 0.08


def test_only_the_first_segment_begins_with_the_init_segment_and_each_where_it_belongs() -> None:
    sound = sound_with_pauses(24_000, 0.16)
    first, second = segment(0, 37, sound, 24_000), segment(37, 88, sound, 24_000)

    assert boxes(first[0]) == ["ftyp", "moov"]
    assert [boxes(chunk) for chunk in second] == [["moof", "mdat"]] * len(second)
    times = [struct.unpack_from(">Q", second[0], found.end() + 4)[0] for found in re.finditer(b"tfdt", second[0])]
    assert times == [37 * 12_800 // FPS, 70 * 1024]  # 37 frames are 69.4 frames of sound


@pytest.mark.parametrize(
    ("colour", "yuv"),
    [
        ((255, 255, 255), (235, 128, 128)),
        ((0, 0, 0), (16, 128, 128)),
        ((255, 0, 0), (63, 102, 240)),
        ((0, 0, 255), (32, 240, 118)),
        ((200, 60, 50), (92, 110, 190)),
    ],
)
def test_colours_are_those_of_bt_709(colour: tuple[int, int, int], yuv: tuple[int, int, int]) -> None:
    planes = to_yuv(np.full((4, 4, 3), colour, np.uint8)).to_ndarray().ravel()

    assert np.abs(planes.astype(int) - np.repeat(yuv, (16, 4, 4))).max() <= 1
