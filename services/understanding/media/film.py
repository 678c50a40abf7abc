"""A picture track becoming a few RGB frames, evenly spread over the clip."""

from __future__ import annotations  # Packet is generic to the type checker, not at run time.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import av
import numpy as np
from av.packet import Packet
from av.stream import Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from services.understanding.media.reach import Reach
from services.understanding.media.work import SIDE_PX_MAX, Work

RATE_PER_S_MAX = 120
"""Pictures per second, on average, that a clip may have."""

# What cameras, browsers and recorders write. Rare decoders stay out: they are where the holes are.
CODECS = ("h264", "hevc", "vp8", "vp9", "av1", "mpeg4", "mjpeg")


@dataclass(frozen=True)
class Frame:
    """One picture: `image` is uint8 (height, width, 3), RGB, upright; `time_s` from the clip's start."""

    time_s: float
    image: NDArray[np.uint8]


class Film:
    """Collects the packets of one track; then decodes the pictures that are wanted.

    Args:
        work: The file; gets the notes.
        stream: The track.

    Raises:
        InvalidRequest: The codec is none that is accepted, or the header declares no possible size.
        TooLarge: The header declares pictures that are too large.
    """

    def __init__(self, work: Work, stream: VideoStream) -> None:
        self.stream = stream
        self.reach = Reach()
        self._work = work
        self._packets: list[Packet[Stream]] = []
        self._damaged = 0
        self._problem = ""
        work.check_codec(stream, CODECS)
        width, height = stream.codec_context.width, stream.codec_context.height
        if min(width, height) <= 0:
            # The decoder also says so of sizes that it holds to be impossible.
            raise work.invalid(f"the size of the pictures is missing or absurd; send at most {SIDE_PX_MAX} px a side")
        if max(width, height) > SIDE_PX_MAX:
            raise work.too_large(f"the pictures are {width}x{height} px; send at most {SIDE_PX_MAX} px a side")
        stream.codec_context.options = {"max_pixels": str(SIDE_PX_MAX**2)}

    def take(self, packet: Packet[Stream]) -> None:
        """Keeps the next packet; nothing is decoded yet, because only then is the clip's length known.

        Raises:
            TooLarge: There are more pictures than a clip within the limits has.
        """
        if packet.size == 0:
            return
        if packet.is_corrupt:  # It lacks its end; what a decoder makes of it is half grey.
            self._damaged += 1
            return
        self._packets.append(packet)
        self.reach.take(packet)
        most = int(self._work.limits.duration_s_max * RATE_PER_S_MAX)
        if len(self._packets) > most:
            raise self._work.too_large(f"the clip has more than {most} pictures; send 30 per second or fewer")

    def frames(self) -> tuple[Frame, ...]:
        """Decodes up to `frames_max` pictures, the nearest to the middles of as many equal stretches of the clip.

        There are none when no picture could be decoded; `problem` says so then.

        Raises:
            TooLarge: The clip or its decoding takes longer than the limit.
        """
        times = _times_s(self._packets)
        start_s, end_s = (times[0], times[-1]) if times else (0.0, 0.0)
        most_s = self._work.limits.duration_s_max
        if end_s - start_s > most_s:
            raise self._work.too_large(f"the pictures last {end_s - start_s:.1f} s; send at most {most_s:g} s")
        packets = self._affordable()
        wanted = _spread(_times_s(packets), self._work.limits.frames_max)
        frames = tuple(
            Frame(time_s - start_s, _upright(picture, self._work.limits.frame_side_px_max))
            for time_s, picture in _pick(self._decoded(packets), wanted)
        )
        if self._damaged:
            self._work.note(f"damaged pictures that were left out: {self._damaged}")
        if not frames:
            self._problem = f"none of the {len(self._packets)} pictures could be decoded"
        return frames

    @property
    def problem(self) -> str:
        """Why `frames` returned none; empty otherwise."""
        return self._problem

    def _affordable(self) -> list[Packet[Stream]]:
        context = self.stream.codec_context
        most = self._work.limits.decode_pixels_max // (context.width * context.height)
        if len(self._packets) <= most:
            return self._packets
        groups = _groups(self._packets)
        groups = groups[:: -(-len(groups) // max(1, most))]
        each = max(1, most // len(groups))
        packets = [packet for group in groups for packet in group[:each]]
        self._work.note(
            f"{len(self._packets)} pictures of {context.width}x{context.height} px are too many to decode in time; "
            f"used the first {each} after each of {len(groups)} key pictures"
        )
        return packets

    def _decoded(self, packets: Sequence[Packet[Stream]]) -> Iterator[VideoFrame]:
        for packet in (*packets, None):
            self._work.check_time()
            try:
                yield from self.stream.codec_context.decode(packet)
            except av.FFmpegError:
                self._damaged += 1


def _times_s(packets: Sequence[Packet[Stream]]) -> list[float]:
    """Returns when the pictures are shown, ascending; pictures without a time are left out."""
    stamps = [(packet.dts if packet.pts is None else packet.pts, packet.time_base) for packet in packets]
    return sorted(float(stamp * time_base) for stamp, time_base in stamps if stamp is not None)


def _groups(packets: Sequence[Packet[Stream]]) -> list[list[Packet[Stream]]]:
    """Splits before each key picture: a group needs nothing that comes before it."""
    groups: list[list[Packet[Stream]]] = [[]]
    for packet in packets:
        if packet.is_keyframe and groups[-1]:
            groups.append([])
        groups[-1].append(packet)
    return groups


def _spread(times: Sequence[float], count: int) -> list[float]:
    """Returns up to `count` of the ascending `times`: the nearest to the middles of `count` equal stretches."""
    if len(times) <= count:
        return list(times)
    marks = times[0] + (np.arange(count) + 0.5) / count * (times[-1] - times[0])
    nearest = {int(np.abs(np.asarray(times) - mark).argmin()) for mark in marks}
    return [times[index] for index in sorted(nearest)]


def _pick(pictures: Iterator[VideoFrame], wanted: Sequence[float]) -> Iterator[tuple[float, VideoFrame]]:
    """Yields the pictures that reach the next wanted time, and stops decoding after the last."""
    ahead = list(wanted)
    for picture in pictures:
        time_s = ahead[0] if picture.time is None else float(picture.time)
        # Half a millisecond covers what a time loses on its way through the container's time base.
        if time_s >= ahead[0] - 0.0005:
            yield time_s, picture
            ahead = [mark for mark in ahead if mark - 0.0005 > time_s]
        if not ahead:
            return


def _upright(picture: VideoFrame, side_px_max: int) -> NDArray[np.uint8]:
    """Converts to RGB, scales the longer side down to `side_px_max`, and turns as the camera was held."""
    scale = min(1.0, side_px_max / max(picture.width, picture.height))
    width, height = (max(1, round(side * scale)) for side in (picture.width, picture.height))
    image = picture.reformat(width=width, height=height, format="rgb24", interpolation="AREA").to_ndarray()
    return np.ascontiguousarray(np.rot90(image, k=round(picture.rotation / 90)), np.uint8)
