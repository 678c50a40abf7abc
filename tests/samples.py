"""Small files as users would send them."""

import io
import wave
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

import av
import numpy as np
from av.video.stream import VideoStream
from numpy.typing import NDArray
from PIL import Image


def png(width_px: int = 64, height_px: int = 64, colour: tuple[int, int, int] = (180, 140, 120)) -> bytes:
    """A picture of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (width_px, height_px), colour).save(file, "PNG")
    return file.getvalue()


def jpeg(width_px: int = 64, height_px: int = 64) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width_px, height_px), (180, 140, 120)).save(file, "JPEG")
    return file.getvalue()


def pcm(seconds: float, rate_hz: int = 16_000) -> bytes:
    """A tone, s16le."""
    tone = np.sin(np.arange(round(seconds * rate_hz)) * 2 * np.pi * 220 / rate_hz)
    return (tone * 8000).astype("<i2").tobytes()


def wav(seconds: float = 1.2, rate_hz: int = 16_000, channels: int = 1) -> bytes:
    """A tone as a WAV file of 16 bits."""
    samples = np.repeat(np.frombuffer(pcm(seconds, rate_hz), "<i2"), channels)
    return wav_of(samples.tobytes(), 2, rate_hz, channels)


def wav_of(data: bytes, width: int, rate_hz: int = 16_000, channels: int = 1) -> bytes:
    """A WAV file of these sample bytes, `width` bytes each."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(width)
        writer.setframerate(rate_hz)
        writer.writeframes(data)
    return file.getvalue()


def film(
    seconds: float = 1.0, sound: bool = True, fps: int = 10, parts: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """An MP4 file of one colour, with a tone when `sound`; `parts` are the file's options."""
    file = io.BytesIO()
    with av.open(file, mode="w", format="mp4", container_options=dict(parts)) as container:
        video = container.add_stream("libx264", rate=fps)
        video.width = video.height = 64
        video.pix_fmt = "yuv420p"
        audio = container.add_stream("aac", rate=16_000, layout="mono") if sound else None
        for _ in range(round(seconds * fps)):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 128, np.uint8), format="rgb24")
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio:
            samples = np.frombuffer(pcm(seconds), "<i2")[None]
            heard = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
            heard.sample_rate = 16_000
            container.mux(audio.encode(heard))
            container.mux(audio.encode(None))
    return file.getvalue()


def moving(
    pictures: Sequence[NDArray[np.uint8]],
    fps: int = 10,
    kind: str = "mp4",
    codec: str = "libx264",
    options: Mapping[str, str] = MappingProxyType({}),
    parts: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """A film of these pictures, uint8 (height, width, 3), RGB; `options` are the encoder's, `parts` the file's."""
    file = io.BytesIO()
    with av.open(file, mode="w", format=kind, container_options=dict(parts)) as container:
        video = cast("VideoStream", container.add_stream(codec, rate=fps, options=dict(options)))
        video.height, video.width = pictures[0].shape[:2]
        video.pix_fmt = "yuv420p"
        for image in pictures:
            container.mux(video.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(video.encode(None))
    return file.getvalue()
