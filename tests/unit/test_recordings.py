"""Voice references as they are sent."""

import hashlib
import struct

import numpy as np
import pytest

from services.common.errors import InvalidRequest
from services.tts.recordings import read_voice
from tests.samples import wav, wav_of

WAVE = np.array([0.0, 0.25, -0.25, 0.5, -1.0])


def data(width: int, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = WAVE) -> bytes:
    return b"".join(int(value * 2 ** (8 * width - 1)).to_bytes(width, "little", signed=True) for value in values)


@pytest.mark.parametrize("width", [2, 3, 4])
def test_16_24_and_32_bits_are_read_alike(width: int) -> None:
    content = wav_of(data(width), width, rate_hz=22_050)
    voice = read_voice(content, "voice")
    np.testing.assert_allclose(voice.samples, WAVE, atol=1e-7)
    assert voice.samples.dtype == np.float32
    assert (voice.sample_rate_hz, voice.digest) == (22_050, hashlib.sha256(content).hexdigest())


def extensible(width: int, kind: int = 1) -> bytes:
    """As most programs write more than 16 bits: the format stands in a longer header, as `kind`."""
    name = struct.pack("<H", kind) + bytes.fromhex("000000001000800000aa00389b71")
    head = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 22_050, 22_050 * width, width, 8 * width, 22, 8 * width, 4) + name
    body = b"WAVE"
    for tag, part in ((b"LIST", b"INFO"), (b"fmt ", head), (b"data", data(width))):
        body += tag + struct.pack("<I", len(part)) + part + bytes(len(part) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("width", [2, 3, 4])
def test_pcm_under_its_longer_name_is_read_too(width: int) -> None:
    content = extensible(width)
    voice = read_voice(content, "voice")
    np.testing.assert_allclose(voice.samples, WAVE, atol=1e-7)
    assert voice.digest == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("width", [2, 3, 4])
def test_two_channels_are_mixed_down(width: int) -> None:
    left_and_right = np.array([[0.5, 0.0], [-0.5, 0.5], [0.25, 0.25]])
    voice = read_voice(wav_of(data(width, left_and_right.ravel()), width, channels=2), "voice")
    np.testing.assert_allclose(voice.samples, [0.25, 0.0, 0.25], atol=1e-7)


@pytest.mark.parametrize("rate_hz", [8_000, 192_000])
def test_the_rates_at_the_limits_are_taken(rate_hz: int) -> None:
    assert read_voice(wav(0.01, rate_hz), "voice").sample_rate_hz == rate_hz


def test_a_minute_is_taken() -> None:
    assert len(read_voice(wav(60, 8_000), "voice").samples) == 480_000


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 0xFFFFFFFF - 44])
def test_a_recording_that_a_program_wrote_to_a_pipe_is_read_whole(size: int) -> None:
    content = wav(1)
    piped = content[:4] + b"\xff" * 4 + content[8:40] + struct.pack("<I", size) + content[44:]
    assert len(read_voice(piped, "voice").samples) == 16_000


FLOATS = bytearray(wav())
FLOATS[20:22] = struct.pack("<H", 3)  # the format code of IEEE floats


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not a PCM WAV file"),
        (b"ID3\x04 an mp3 file, perhaps", "not a PCM WAV file"),
        (b"RIFF\x24\x00\x00\x00WAVE", "not a PCM WAV file"),
        (bytes(FLOATS), "not a PCM WAV file"),
        (extensible(4, kind=3), "not a PCM WAV file"),
        (wav()[:20], "not a PCM WAV file"),
        (wav(1)[:-1000], "cut off: 15500 of 16000 samples are there; send the whole file"),
        (wav(1)[:-1], "cut off: 15999 of 16000"),
        (wav_of(bytes(100), 1), "8-bit samples; send 16, 24 or 32 bits"),
        (wav(0.1, 7_999), "7999 Hz; send 8000 to 192000 Hz"),
        (wav(0.01, 192_001), "192001 Hz; send 8000 to 192000 Hz"),
        (wav(61, 8_000), "61 s long; send at most 60 s"),
    ],
)
def test_what_is_no_usable_recording_is_refused_with_field_and_reason(content: bytes, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_voice(content, "voice")
    assert refused.value.field == "voice"
    assert problem in str(refused.value)


def test_a_header_with_any_byte_wrong_is_refused_or_read_but_never_breaks_the_service() -> None:
    good = wav(0.05)
    read = 0
    for at in range(44):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            broken = bytearray(good)
            broken[at] = value
            try:
                read += len(read_voice(bytes(broken), "voice").samples) > 0
            except InvalidRequest as error:
                assert error.field == "voice"
    assert 0 < read < 44 * 5
