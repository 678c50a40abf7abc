"""Brings the turns of a chat into the message format of OpenAI's chat completions."""

import base64
import io
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from services.mllm.chat.model import Turn
from services.mllm.domain import AUDIO_RATE_HZ, Frame

JPEG_QUALITY = 90


def messages_of(turns: Sequence[Turn], frame_side_px_max: int) -> list[dict[str, Any]]:
    """Returns one message per turn.

    A turn without media is plain text, which the chat template of every model takes. Media come as parts, before the
    words: frames as `image_url` with a JPEG in a data URI, audio as `input_audio` with a WAV file of 16 bits. The
    format has no part for video that every server knows, and no other way than base64.

    Args:
        turns: In order.
        frame_side_px_max: Longer side of a frame; larger ones are scaled down.
    """
    return [
        {"role": turn.role, "content": _parts(turn, frame_side_px_max) if _has_media(turn) else turn.text}
        for turn in turns
    ]


def _has_media(turn: Turn) -> bool:
    return turn.audio is not None or bool(turn.frames)


def _parts(turn: Turn, frame_side_px_max: int) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for frame in turn.frames:
        uri = f"data:image/jpeg;base64,{_base64(jpeg_of(frame, frame_side_px_max))}"
        parts.append({"type": "image_url", "image_url": {"url": uri}})
    if turn.audio is not None:
        parts.append({"type": "input_audio", "input_audio": {"data": _base64(_wav(turn.audio)), "format": "wav"}})
    return [*parts, {"type": "text", "text": turn.text}]


def jpeg_of(frame: Frame, side_px_max: int) -> bytes:
    """Returns a frame as a JPEG file, scaled down where its longer side is longer than `side_px_max`."""
    image = Image.fromarray(frame.image)
    image.thumbnail((side_px_max, side_px_max))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue()


def _wav(audio: NDArray[np.float32]) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(AUDIO_RATE_HZ)
        writer.writeframes((np.clip(audio, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
