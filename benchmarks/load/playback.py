"""Playback of a reply while it arrives: media times of its chunks, and stalls of a player."""

import struct
from collections.abc import Iterator


class InvalidVideo(ValueError):
    """A stream is no fragmented MP4; the message says why."""


class Player:
    """A player that starts with the first stretch that arrives, and stalls when one arrives after its media time.

    Attributes:
        stalls: Number of stalls so far.
        stalled_s: Length of all stalls so far.
    """

    def __init__(self) -> None:
        self.stalls = 0
        self.stalled_s = 0.0
        self._begun_s: float | None = None

    def arrive(self, at_s: float, media_s: float) -> None:
        """Take a stretch that arrives at `at_s` and is to be shown at `media_s` of the reply."""
        if self._begun_s is None:
            self._begun_s = at_s - media_s
        late_s = at_s - (self._begun_s + self.stalled_s + media_s)
        if late_s > 0:
            self.stalls += 1
            self.stalled_s += late_s


class VideoTimes:
    """Media times of the fragments of an MP4 stream (ISO 14496-12), by its first video track.

    Attributes:
        end_s: End of the last fragment that has arrived.
    """

    def __init__(self) -> None:
        self.end_s = 0.0
        self._bytes = bytearray()
        self._track = 0
        self._timescale = 0
        self._step = 0
        self._moof = b""

    def add(self, content: bytes) -> list[float]:
        """Take the next bytes; return the start times of the fragments that are whole now.

        Raises:
            InvalidVideo: They are no fragmented MP4.
        """
        self._bytes += content
        starts: list[float] = []
        try:
            while len(self._bytes) >= 8:
                size, kind = struct.unpack_from(">I4s", self._bytes)
                if size < 8:
                    raise InvalidVideo(f"a box has {size} bytes")
                if len(self._bytes) < size:
                    break
                box = bytes(self._bytes[8:size])
                del self._bytes[:size]
                if kind == b"moov":
                    self._read_head(box)
                elif kind == b"moof":
                    self._moof = box
                elif kind == b"mdat" and self._moof:
                    starts += self._fragment()
        except (struct.error, KeyError) as error:
            raise InvalidVideo(f"a box lacks {error}") from error
        return starts

    def _read_head(self, moov: bytes) -> None:
        for kind, trak in _boxes(moov):
            if kind != b"trak":
                continue
            parts = dict(_boxes(trak))
            media = dict(_boxes(parts[b"mdia"]))
            if media[b"hdlr"][8:12] == b"vide" and not self._track:
                # Version 1 has times of 64 bits before these fields.
                (self._track,) = struct.unpack_from(">I", parts[b"tkhd"], 20 if parts[b"tkhd"][0] else 12)
                (self._timescale,) = struct.unpack_from(">I", media[b"mdhd"], 20 if media[b"mdhd"][0] else 12)
        if not self._timescale:
            raise InvalidVideo("no video track in it")
        for kind, trex in _boxes(dict(_boxes(moov)).get(b"mvex", b"")):
            if kind == b"trex" and struct.unpack_from(">I", trex, 4)[0] == self._track:
                (self._step,) = struct.unpack_from(">I", trex, 12)

    def _fragment(self) -> Iterator[float]:
        """Yield the start of the fragment, if it has pictures, and move the end."""
        if not self._timescale:
            raise InvalidVideo("a fragment comes before the init segment")
        for kind, traf in _boxes(self._moof):
            parts = dict(_boxes(traf)) if kind == b"traf" else {}
            if not parts or struct.unpack_from(">I", parts[b"tfhd"], 4)[0] != self._track:
                continue
            (start,) = struct.unpack_from(">Q" if parts[b"tfdt"][0] else ">I", parts[b"tfdt"], 4)
            step = _step_of(parts[b"tfhd"], self._step)
            length = sum(_length_of(box, step) for name, box in _boxes(traf) if name == b"trun")
            self.end_s = max(self.end_s, (start + length) / self._timescale)
            if length:
                yield start / self._timescale
        self._moof = b""


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and content of the boxes that lie side by side."""
    place = 0
    while place + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        if size < 8:
            raise InvalidVideo(f"a box has {size} bytes")
        yield kind, data[place + 8 : place + size]
        place += size


def _step_of(tfhd: bytes, default: int) -> int:
    """Return the length of each picture that a fragment's header gives, or the default."""
    flags = int.from_bytes(tfhd[1:4])
    if not flags & 0x8:
        return default
    return int(struct.unpack_from(">I", tfhd, 8 + 8 * bool(flags & 0x1) + 4 * bool(flags & 0x2))[0])


def _length_of(trun: bytes, step: int) -> int:
    """Return the length of a run of pictures."""
    flags = int.from_bytes(trun[1:4])
    (count,) = struct.unpack_from(">I", trun, 4)
    if not flags & 0x100:
        return int(count) * step
    place = 8 + 4 * bool(flags & 0x1) + 4 * bool(flags & 0x4)
    row = 4 * sum(bool(flags & bit) for bit in (0x100, 0x200, 0x400, 0x800))
    return sum(struct.unpack_from(">I", trun, place + row * number)[0] for number in range(count))
