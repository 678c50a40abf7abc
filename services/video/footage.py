"""A film that may become a reference of a face: a few of its pictures are looked at, spread over its length.

Nothing that a file declares is believed before it is decoded, and every loop over it stops at a limit of pictures,
pixels and seconds. One picture is decoded at a time, and only those from a key picture up to one that is looked at.
"""

from __future__ import annotations  # Packet is generic to the type checker, not at run time.

import io
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import av
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from services.common.containers import kind_of
from services.common.endings import missing_bytes
from services.common.errors import InvalidRequest, TooLarge
from services.common.images import SIDE_PX_MAX

FIELD = "film"
KINDS = ("mp4", "matroska")
CODECS = ("h264", "hevc", "vp8", "vp9", "av1")
"""What cameras and browsers write. Rare decoders stay out: they are where the holes are."""
DURATION_S_MAX = 60.0
RATE_PER_S_MAX = 120
STREAMS_MAX = 16
PIXELS_MAX = 3_000_000_000
"""Pixels that are decoded at most, some seconds of work: 60 s of 1920x1080 at 25 a second with a key picture every 10 s
need fewer."""
DECODE_S_MAX = 20.0
LOOKS = 24
"""Pictures that are looked at."""
SHARE_MIN = 0.8
"""How many of them must have exactly one usable face: who is filmed may turn away for a moment."""

Coded: TypeAlias = "Packet[VideoStream]"


@dataclass(frozen=True)
class Footage:
    """A film that can be a reference: its length, and the share of its pictures with exactly one usable face."""

    duration_s: float
    face_share: float


@dataclass(frozen=True)
class _Run:
    """A key picture and what follows it, in the order of decoding, and when those are shown that are looked at."""

    packets: Sequence[Coded]
    wanted_s: Sequence[float]


def inspect(
    content: bytes,
    flaw_of: Callable[[NDArray[np.uint8]], str],
    pixels_max: int = PIXELS_MAX,
    decode_s_max: float = DECODE_S_MAX,
) -> Iterator[Footage | None]:
    """Looks at a film; yields None after each picture that is decoded, and last what was found.

    Args:
        content: The file.
        flaw_of: Tells why a picture, uint8 (height, width, 3), RGB, has not exactly one usable face; empty when it has.
        pixels_max: Most pixels that are decoded.
        decode_s_max: Most time that decoding and looking may take.

    Raises:
        InvalidRequest: It is no MP4 or WebM film, is damaged, or has a usable face in too few of its pictures.
        TooLarge: It is too long, its pictures are too large, or there is too much to decode.
    """
    ends_s = time.monotonic() + decode_s_max
    flaws: Counter[str] = Counter()
    with _opened(content) as source:
        stream = _pictures_of(source)
        packets = _packets(source, stream)
        duration_s = _duration_s(packets)
        for run in _plan(packets, stream, pixels_max):
            for picture in _decoded(stream, run):
                if time.monotonic() > ends_s:
                    raise TooLarge(FIELD, f"it could not be decoded in {decode_s_max:g} s; send a smaller one")
                if picture is not None:
                    flaws[flaw_of(_upright(picture))] += 1
                yield None
    yield Footage(duration_s, _share(flaws))


@contextmanager
def _opened(content: bytes) -> Iterator[InputContainer]:
    kind = kind_of(content, FIELD, KINDS)
    if lacking := missing_bytes(content, kind):
        raise InvalidRequest(FIELD, f"it is incomplete, {lacking} bytes or more are missing at its end; send it again")
    options = {
        "max_streams": str(STREAMS_MAX),
        "max_pixels": str(SIDE_PX_MAX**2),
        "probesize": str(2**20),
        "analyzeduration": "2000000",
        "protocol_whitelist": "none",
    }
    try:
        # Titles in another encoding are common, and nothing here reads them.
        with av.open(io.BytesIO(content), "r", format=kind, options=options, metadata_errors="replace") as source:
            yield source
    except av.FFmpegError as error:
        problem = f"the {kind} file of {len(content)} bytes is damaged or incomplete ({error.strerror}); send it again"
        raise InvalidRequest(FIELD, problem) from error


def _pictures_of(source: InputContainer) -> VideoStream:
    # The cover of a song is a video stream too.
    streams = [stream for stream in source.streams.video if not stream.disposition & Disposition.attached_pic]
    if not streams:
        raise InvalidRequest(FIELD, "it has no moving pictures; send a film that shows the face")
    stream = streams[0]
    # PyAV has no context for a stream whose codec it does not know, whatever its types say.
    known = getattr(stream, "codec_context", None) is not None
    name = stream.codec_context.codec.canonical_name if known else "unknown"
    if name not in CODECS:
        raise InvalidRequest(FIELD, f"its pictures are coded as {name}; use one of: {', '.join(CODECS)}")
    context = stream.codec_context
    if min(context.width, context.height) <= 0:
        # The decoder also says so of sizes that it holds to be impossible.
        problem = f"the size of its pictures is missing or absurd; send at most {SIDE_PX_MAX} px a side"
        raise InvalidRequest(FIELD, problem)
    if max(context.width, context.height) > SIDE_PX_MAX:
        found = f"its pictures are {context.width}x{context.height} px"
        raise TooLarge(FIELD, f"{found}; send at most {SIDE_PX_MAX} px a side")
    context.options = {"max_pixels": str(SIDE_PX_MAX**2)}
    context.thread_count = 1
    return stream


def _packets(source: InputContainer, stream: VideoStream) -> list[Coded]:
    """Returns the coded pictures in the order of decoding; they are no larger than the file."""
    packets: list[Coded] = []
    most = round(DURATION_S_MAX * RATE_PER_S_MAX)
    for packet in source.demux(stream):
        if packet.is_corrupt:
            raise InvalidRequest(FIELD, "it is damaged or incomplete: a picture lacks its end; send it again")
        if packet.size and packet.pts is not None:
            packets.append(packet)
        if len(packets) > most:
            raise TooLarge(FIELD, f"it has more than {most} pictures; send 30 a second or fewer")
    while packets and not packets[0].is_keyframe:
        packets.pop(0)
    if not packets:
        raise InvalidRequest(FIELD, "it has no picture that can be decoded; send a film that shows the face")
    return packets


def _time_s(packet: Coded) -> float:
    return float((packet.pts or 0) * packet.time_base)


def _duration_s(packets: Sequence[Coded]) -> float:
    """Returns the length: from the first picture to the end of the last."""
    first, last = min(packets, key=_time_s), max(packets, key=_time_s)
    between_s = _time_s(last) - _time_s(first)
    if between_s > DURATION_S_MAX:
        raise TooLarge(FIELD, f"it lasts {between_s:.1f} s; send at most {DURATION_S_MAX:g} s")
    return between_s + float((last.duration or 0) * last.time_base)


def _plan(packets: Sequence[Coded], stream: VideoStream, pixels_max: int) -> list[_Run]:
    """Chooses what is looked at, the first picture of each of `LOOKS` equal stretches, and so what is decoded."""
    times = np.array(sorted(map(_time_s, packets)))
    marks = times[0] + np.arange(LOOKS) / LOOKS * (times[-1] - times[0])
    wanted = {float(times[np.searchsorted(times, mark - 0.0005)]) for mark in marks}
    runs = []
    for group in _groups(packets):
        own = [_time_s(packet) for packet in group]
        inside = sorted(wanted.intersection(own))
        if inside:
            last = max(place for place, time_s in enumerate(own) if time_s <= inside[-1])
            runs.append(_Run(group[: last + 1], inside))
    context, count = stream.codec_context, sum(len(run.packets) for run in runs)
    if count * context.width * context.height > pixels_max:
        size = f"{context.width}x{context.height} px"
        problem = f"{count} of its pictures of {size} would have to be decoded to look at {len(wanted)}"
        raise TooLarge(FIELD, f"{problem}; send smaller pictures, 1280x720 px are enough")
    return runs


def _groups(packets: Sequence[Coded]) -> list[list[Coded]]:
    """Splits before each key picture: a group needs nothing that comes before it."""
    groups: list[list[Coded]] = []
    for packet in packets:
        if packet.is_keyframe:
            groups.append([])
        groups[-1].append(packet)
    return groups


def _decoded(stream: VideoStream, run: _Run) -> Iterator[VideoFrame | None]:
    """Decodes a run; yields the pictures that are looked at, and None for others."""
    ahead = list(run.wanted_s)
    for packet in (*run.packets, None):
        for picture in stream.codec_context.decode(packet):
            if max(picture.width, picture.height) > SIDE_PX_MAX:
                found = f"a picture is {picture.width}x{picture.height} px"
                raise TooLarge(FIELD, f"{found}; send at most {SIDE_PX_MAX} px a side")
            # Not `picture.time`: those that the decoder gives up last have none.
            shown_s = None if picture.pts is None else float(picture.pts * run.packets[0].time_base)
            # Half a millisecond covers what a time loses on its way through the container's time base.
            reached = [] if shown_s is None else [mark for mark in ahead if mark - 0.0005 <= shown_s]
            del ahead[: len(reached)]
            yield picture if reached else None
    stream.codec_context.flush_buffers()


def _upright(picture: VideoFrame) -> NDArray[np.uint8]:
    """Converts to RGB, and turns as the camera was held."""
    image = picture.to_ndarray(format="rgb24")
    return np.ascontiguousarray(np.rot90(image, k=round(picture.rotation / 90)), np.uint8)


def _share(flaws: Counter[str]) -> float:
    """Returns the share of pictures without a flaw.

    Raises:
        InvalidRequest: It is too small.
    """
    seen, usable = flaws.total(), flaws.pop("", 0)
    if not seen:
        raise InvalidRequest(FIELD, "none of its pictures could be decoded; send it again")
    if usable < SHARE_MIN * seen:
        why = ", ".join(f"{flaw} in {count}" for flaw, count in flaws.most_common())
        raise InvalidRequest(
            FIELD,
            f"exactly one usable face in {usable} of the {seen} pictures looked at ({why}); send a film in which at "
            f"least {SHARE_MIN:.0%} show one person who looks at the camera, well lit",
        )
    return usable / seen
