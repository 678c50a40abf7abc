"""Reads a voice reference: a WAV file becomes samples."""

import hashlib
import io
import wave

import numpy as np

from services.common.endings import missing_bytes
from services.common.errors import InvalidRequest
from services.tts.domain import VoiceReference

RATE_HZ_MIN, RATE_HZ_MAX = 8_000, 192_000
DURATION_S_MAX = 60.0
_PCM = bytes.fromhex("0100000000001000800000aa00389b71")
"""Name of plain PCM in a WAV file whose format is "extensible" (Microsoft, "WAVEFORMATEXTENSIBLE")."""


def read_voice(content: bytes, field: str) -> VoiceReference:
    """Decodes a PCM WAV file of 16, 24 or 32 bits; several channels are mixed down.

    Args:
        content: The file.
        field: Name of the request's field, for the error.

    Raises:
        InvalidRequest: It is not such a file, is cut off, or is longer than a minute.
    """
    try:
        with wave.open(io.BytesIO(_plain(content))) as file:
            channels, width, rate_hz = file.getnchannels(), file.getsampwidth(), file.getframerate()
            declared, data = file.getnframes(), file.readframes(int(DURATION_S_MAX * RATE_HZ_MAX) + 1)
    except (wave.Error, EOFError, RuntimeError) as error:  # the last when a chunk reaches beyond the file
        problem = str(error) or "its parts do not fit together"
        raise InvalidRequest(field, f"not a PCM WAV file ({problem}); send WAV, 16 bit") from None
    if width not in (2, 3, 4):
        raise InvalidRequest(field, f"{8 * width}-bit samples; send 16, 24 or 32 bits")
    if not RATE_HZ_MIN <= rate_hz <= RATE_HZ_MAX:
        raise InvalidRequest(field, f"{rate_hz} Hz; send {RATE_HZ_MIN} to {RATE_HZ_MAX} Hz")
    frames = len(data) // (width * channels)
    if frames < declared and missing_bytes(content, "wav"):  # A program that writes to a pipe declares any number.
        raise InvalidRequest(field, f"cut off: {frames} of {declared} samples are there; send the whole file")
    if frames / rate_hz > DURATION_S_MAX:
        raise InvalidRequest(field, f"{frames / rate_hz:.0f} s long; send at most {DURATION_S_MAX:.0f} s")
    # Whole samples, widened to 32 bits on the low side: the top byte carries the sign whatever the width.
    raw = np.frombuffer(data[: frames * width * channels], np.uint8).reshape(frames * channels, width)
    wide = np.zeros((frames * channels, 4), np.uint8)
    wide[:, 4 - width :] = raw
    samples = wide.view("<i4").reshape(frames, channels).mean(axis=1) / 2**31
    return VoiceReference(hashlib.sha256(content).hexdigest(), samples.astype(np.float32), rate_hz)


def _plain(content: bytes) -> bytes:
    """Calls plain PCM by its old number where it is "extensible", as most programs write it above 16 bits.

    `wave` knows the old number only, up to Python 3.11. The rest of the header has the same layout.
    """
    at = content.find(b"fmt ", 12) + 8
    if content[at : at + 2] != b"\xfe\xff" or content[at + 24 : at + 40] != _PCM:
        return content
    return content[:at] + b"\x01\x00" + content[at + 2 :]
