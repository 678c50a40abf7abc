"""How much of a file came: how far its tracks reach, and how far it says they do."""

from __future__ import annotations  # Packet is generic to the type checker, not at run time.

import math
from collections.abc import Sequence
from dataclasses import dataclass

from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from services.common.endings import missing_bytes, tells_duration
from services.understanding.media.work import Work

SLACK_S = {"flac": 0.02, "mp4": 0.5}
"""By how much a track may end before its declared length while no byte of the file is missing.

FLAC counts its samples, and nothing else tells that it is cut. MP4 tells where each sample lies, so its length counts
only where whole fragments may be missing; those mostly last a second or more, while edits, gaps and what encoders add
at both ends amount to some tenths of one. Others tell lengths that were measured by a clock or guessed: no evidence.
"""

ROUNDING_S = 0.001
"""What times lose in a container that counts milliseconds."""


class Reach:
    """From when to when the usable packets of one track last."""

    def __init__(self) -> None:
        self._start_s: float | None = None
        self.end_s = 0.0
        """When the last one ends, on the file's own clock."""

    def take(self, packet: Packet[Stream]) -> None:
        """Adds a packet; one without a time is left out."""
        stamp = packet.dts if packet.pts is None else packet.pts
        if stamp is None:
            return
        start_s = float(stamp * packet.time_base)
        self._start_s = start_s if self._start_s is None else min(self._start_s, start_s)
        self.end_s = max(self.end_s, start_s + float((packet.duration or 0) * packet.time_base))

    @property
    def length_s(self) -> float:
        """From the first to the end of the last; what comes before zero is there for the decoder only."""
        return 0.0 if self._start_s is None else self.end_s - max(0.0, self._start_s)


@dataclass(frozen=True)
class Track:
    """A track that is used: what to say of its end ("its sound ends"), and how far it came."""

    ends: str
    stream: AudioStream | VideoStream
    reach: Reach


def shortfall(content: bytes, work: Work, source: InputContainer, tracks: Sequence[Track]) -> str:
    """Returns how much came of how much when the file ends before it says; empty when it does not.

    Args:
        content: The file.
        work: Knows its kind.
        source: The file, open, whose packets were all taken.
        tracks: Those that are used.
    """
    missing = missing_bytes(content, work.kind)
    lengths = [_promised_s(content, work.kind, source, track, missing) for track in tracks]
    slack_s = SLACK_S.get(work.kind, math.inf)
    if not missing and all(
        length - track.reach.end_s <= slack_s for track, length in zip(tracks, lengths, strict=True)
    ):
        return ""
    ends = [f"{track.ends} after {track.reach.length_s:.2f} s" for track in tracks]
    promises = [
        f" of the promised {length:.2f} s" if length - track.reach.length_s > ROUNDING_S else ""
        for track, length in zip(tracks, lengths, strict=True)
    ]
    told = ", ".join(end + promise for end, promise in zip(ends, promises, strict=True))
    # Of some only the bytes tell: recordings as they are made promise no length, and an index at the end lasts no time.
    return f"the file is cut off: {told}" + ("" if any(promises) else f", {missing} bytes or more are missing")


def _promised_s(content: bytes, kind: str, source: InputContainer, track: Track, missing: int) -> float:
    """Returns how long the file says that the track is; 0 when it does not say."""
    stream = track.stream
    if kind == "wav" and stream.codec_context.bit_rate:
        return track.reach.length_s + 8 * missing / stream.codec_context.bit_rate
    if not tells_duration(content, kind):
        return 0.0
    if kind == "matroska":  # One length for all tracks, counted from zero.
        return ((source.duration or 0) - (source.start_time or 0)) / 1_000_000
    return float((stream.duration or 0) * (stream.time_base or 0))
