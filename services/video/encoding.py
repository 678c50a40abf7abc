"""Turns frames and speech into fragmented MP4 as they come: one init segment, then fragments in order.

A browser's MediaSource takes the chunks one by one, and written one after another they are a file that plays anywhere.
"""

import struct
from collections.abc import Iterable, Iterator
from fractions import Fraction

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from numpy.typing import NDArray

CHUNK_BYTES_MAX = 1 << 20
FRAGMENT_S = 0.16
"""Fragments are cut at the first frame after this: short enough to start early, long enough to cost little."""
KEYFRAME_S = 1.0
AUDIO_RATE_HZ = 48_000
"""Sound is always brought to this rate: AAC frames are 1024 samples, which at a voice's 24 kHz would be longer than a
frame of video, and the two could not end together."""
AUDIO_BITS_PER_S = 96_000
AAC_FRAME = 1024
QUALITY_CRF = "23"
PRESET = "veryfast"


class FragmentedMp4:
    """Encodes one film, H.264 (yuv420p) and AAC mono. Used by one thread; ended by `finish` or `close`.

    Args:
        size_px: Width and height of the frames; even.
        fps: Frames per second.
        audio_rate_hz: Samples per second of what `add` will be given.
    """

    def __init__(self, size_px: int, fps: int, audio_rate_hz: int) -> None:
        self._fps = fps
        self._sink = _Sink()
        self._container = av.open(
            self._sink,
            mode="w",
            format="mp4",
            # default_base_moof: what MediaSource requires; empty_moov: the init segment comes first and alone.
            options={
                "movflags": "empty_moov+default_base_moof",
                "frag_duration": str(int(FRAGMENT_S * 1e6)),
                "flush_packets": "1",
            },
        )
        self._video = self._add_video(size_px)
        self._audio: AudioStream = self._container.add_stream("aac", rate=AUDIO_RATE_HZ, layout="mono")
        self._audio.bit_rate = AUDIO_BITS_PER_S
        self._resampler = AudioResampler(format="fltp", layout="mono", rate=AUDIO_RATE_HZ, frame_size=AAC_FRAME)
        self._audio_rate_hz = audio_rate_hz
        self._frames = 0
        self._samples_in = 0
        self._container.start_encoding()

    @property
    def mime_type(self) -> str:
        """What to give to a browser's `MediaSource.addSourceBuffer`."""
        return f'video/mp4; codecs="{_avc_codec(self._video.codec_context.extradata or b"")}, mp4a.40.2"'

    def add(self, frames: Iterable[NDArray[np.uint8]], samples: NDArray[np.int16]) -> list[bytes]:
        """Takes the next frames and the next stretch of sound; either may be empty, and neither need be in step.

        Args:
            frames: Each uint8 (size_px, size_px, 3), RGB.
            samples: int16 (n,), mono.

        Returns:
            The chunks that are complete now, each at most `CHUNK_BYTES_MAX` bytes; the first is the init segment.
        """
        self._add_sound(samples)
        for image in frames:
            frame = VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = self._frames, Fraction(1, self._fps)
            self._frames += 1
            self._container.mux(self._video.encode(self._to_yuv(frame)))
        return list(self._sink.take())

    def finish(self) -> list[bytes]:
        """Ends both streams together, the sound filled up with silence, and returns the last chunks."""
        missing = self._frames * self._audio_rate_hz // self._fps - self._samples_in
        if missing > 0:
            self._add_sound(np.zeros(missing, np.int16))
        for frame in self._resampler.resample(None):
            self._mux_sound(frame)
        self._container.mux(self._video.encode(None))
        self._mux_sound(None)
        self._container.close()
        return list(self._sink.take(last=True))

    def close(self) -> None:
        """Frees the encoders of a film that will not be finished."""
        self._container.close()

    def _add_video(self, size_px: int) -> VideoStream:
        stream: VideoStream = self._container.add_stream("libx264", rate=self._fps)
        stream.width = stream.height = size_px
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.gop_size = int(KEYFRAME_S * self._fps)
        context.thread_count = 1
        context.color_range = ColorRange.MPEG
        context.colorspace = Colorspace.ITU709
        stream.options = {"preset": PRESET, "tune": "zerolatency", "crf": QUALITY_CRF}
        return stream

    def _to_yuv(self, frame: VideoFrame) -> VideoFrame:
        return frame.reformat(format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG)

    def _add_sound(self, samples: NDArray[np.int16]) -> None:
        if not len(samples):
            return
        frame = AudioFrame.from_ndarray(np.ascontiguousarray(samples)[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = self._audio_rate_hz, self._samples_in
        frame.time_base = Fraction(1, self._audio_rate_hz)
        self._samples_in += len(samples)
        for resampled in self._resampler.resample(frame):
            self._mux_sound(resampled)

    def _mux_sound(self, frame: AudioFrame | None) -> None:
        for packet in self._audio.encode(frame):
            # The first packet only primes the decoder and lies before time zero; kept, it would make the muxer move
            # everything but the first picture back by its length.
            if packet.pts is not None and packet.pts >= 0:
                self._container.mux(packet)


class _Sink:
    """What the muxer writes to: hands out whole segments."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def write(self, data: bytes) -> int:
        self._bytes += data
        return len(data)

    def take(self, last: bool = False) -> Iterator[bytes]:
        """Yields the segments that are complete (ftyp + moov; moof + mdat), and at the `last` call all that is left."""
        for end in _segment_ends(self._bytes):
            yield from self._cut(end)
        if last and self._bytes:
            yield from self._cut(len(self._bytes))

    def _cut(self, end: int) -> Iterator[bytes]:
        segment = bytes(self._bytes[:end])
        del self._bytes[:end]
        for start in range(0, len(segment), CHUNK_BYTES_MAX):
            yield segment[start : start + CHUNK_BYTES_MAX]


def _segment_ends(data: bytearray) -> list[int]:
    """Lengths of the successive complete segments at the head of `data`."""
    lengths, start, place = [], 0, 0
    while place + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        if place + size > len(data):
            break
        place += size
        if kind in (b"moov", b"mdat"):
            lengths.append(place - start)
            start = place
    return lengths


def _avc_codec(extradata: bytes) -> str:
    """The codec's name by RFC 6381: profile, constraints and level are the first bytes of the sequence parameters."""
    at = extradata.find(b"\x00\x00\x01\x67")
    head = extradata[at + 4 : at + 7] if at >= 0 else extradata[1:4]
    return "avc1." + head.hex().upper()
