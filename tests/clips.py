"""Sound and film files, whole and wrong, as a user may send them, and what the panel's reader makes of them."""

import io
import struct
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.video.stream import VideoStream
from numpy.typing import NDArray

from services.common.errors import InvalidRequest
from services.understanding import media

Samples = NDArray[np.float64]


def tone(duration_s: float = 0.5, rate_hz: int = 16_000, pitch_hz: float = 220.0, peak: float = 0.3) -> Samples:
    return peak * np.sin(2 * np.pi * pitch_hz * np.arange(round(duration_s * rate_hz)) / rate_hz)


def wav(*channels: Samples, rate_hz: int = 16_000, bits: int = 16) -> bytes:
    """A PCM file; 24 bits are packed by hand, as `wave` takes bytes only."""
    values = np.stack(channels, axis=1)
    whole = np.round(values * (2 ** (bits - 1) - 1)).astype("<i4")
    packed = whole.view(np.uint8).reshape(*whole.shape, 4)[..., : bits // 8]
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(len(channels))
        file.setsampwidth(bits // 8)
        file.setframerate(rate_hz)
        file.writeframes(packed.tobytes())
    return buffer.getvalue()


def wav_of(
    codec: int, channels: int, rate_hz: int, data: bytes, *, declared_bytes: int | None = None, bits: int = 32
) -> bytes:
    """A RIFF file whose header says whatever is asked for."""
    block = channels * bits // 8 & 0xFFFF
    form = struct.pack("<HHIIHH", codec, channels, rate_hz, rate_hz * block & 0xFFFFFFFF, block, bits)
    size = len(data) if declared_bytes is None else declared_bytes
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", len(body) & 0xFFFFFFFF) + body


def clip(
    kind: str = "mp4",
    picture: str | None = "libx264",
    sound: str | None = "aac",
    *,
    width: int = 128,
    height: int = 96,
    count: int = 30,
    fps: int = 25,
    samples: Samples | None = None,
    **options: str,
) -> bytes:
    """A film whose pictures get brighter from left-top to the end, with a tone."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=kind) as output:
        video = output.add_stream(picture, rate=fps) if picture else None
        audio = output.add_stream(sound, rate=48_000) if sound else None
        if video is not None:
            assert isinstance(video, VideoStream)
            video.width, video.height = width, height
            video.pix_fmt = "yuvj420p" if picture == "mjpeg" else "yuv420p"
            video.options = {"preset": "ultrafast", **options} if picture == "libx264" else {**options}
            for index in range(count):
                image = np.full((height, width, 3), 40 + index * 160 // count, np.uint8)
                image[: height // 2, : width // 2] = (250, 20, 20)
                output.mux(video.encode(av.VideoFrame.from_ndarray(image, "rgb24").reformat(format=video.pix_fmt)))
            output.mux(video.encode(None))
        if audio is not None:
            assert isinstance(audio, AudioStream)
            values = tone(count / fps, 48_000) if samples is None else samples
            frame = av.AudioFrame.from_ndarray(values.astype(np.float32)[None], "fltp", "mono")
            frame.rate = 48_000
            for piece in av.AudioResampler(format=audio.format, layout=audio.layout, rate=48_000).resample(frame):
                output.mux(audio.encode(piece))
            output.mux(audio.encode(None))
    return buffer.getvalue()


def pictures_of(*sizes: tuple[int, int]) -> bytes:
    """A film of grey JPEG pictures whose header tells the size of small ones."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="avi") as output:
        stream = output.add_stream("mjpeg", rate=25)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuvj420p"
        for index, size in enumerate(sizes):
            packet = av.Packet(cv2.imencode(".jpg", np.full(size, 99, np.uint8))[1].tobytes())
            packet.stream, packet.pts, packet.dts, packet.is_keyframe = stream, index, index, True
            output.mux(packet)
    return buffer.getvalue()


def fragmented() -> bytes:
    buffer = io.BytesIO()
    with (
        av.open(io.BytesIO(clip(sound=None)), "r") as source,
        av.open(buffer, "w", format="mp4", options={"movflags": "frag_keyframe+empty_moov"}) as output,
    ):
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.stream = stream
                output.mux(packet)
    return buffer.getvalue()


def problem_of(read: Callable[[bytes], media.Media], content: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        read(content)
    assert caught.value.field == ("audio" if read is media.read_audio else "video")
    return str(caught.value)


def pitch_of(samples: NDArray[np.float32]) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.fft.rfftfreq(len(samples), 1 / media.RATE_HZ)[spectrum.argmax()])


def peak_mib_of_reading(content: bytes, folder: Path) -> float:
    """Memory that a process of its own takes, at its peak, beyond what it had before it read `content` as video."""
    (folder / "file").write_bytes(content)
    program = """
import pathlib, sys
from services.common.errors import InvalidRequest
from services.understanding import media
def peak_kib():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
before = peak_kib()
try:
    media.read_video(pathlib.Path(sys.argv[1]).read_bytes())
except InvalidRequest:
    pass
print((peak_kib() - before) / 1024)
"""
    command = [sys.executable, "-c", program, str(folder / "file")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    return float(done.stdout)


def red(pixel: NDArray[np.uint8]) -> bool:
    return bool(pixel[0] > 180 and pixel[2] < 90)


def sound_of(found: media.Media) -> NDArray[np.float32]:
    assert found.audio is not None
    samples = found.audio.samples
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert np.abs(samples).max() <= 1
    return samples
