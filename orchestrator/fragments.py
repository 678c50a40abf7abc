"""Whole fragments of an MP4 stream, and the number of pictures in them."""

import struct


class Fragments:
    """Fragmented MP4 as it comes: hands on whole fragments, and counts the pictures in them.

    Attributes:
        frames: Pictures in the fragments that were handed on.
    """

    def __init__(self) -> None:
        self.frames = 0
        self._bytes = bytearray()
        self._has_init = False

    def add(self, content: bytes) -> list[bytes]:
        """Return the fragments that are whole now; the init segment is one, the first time that it comes."""
        self._bytes += content
        found: list[bytes] = []
        while end := self._end():
            fragment = bytes(self._bytes[:end])
            del self._bytes[:end]
            is_init = fragment[4:8] == b"ftyp"
            if not (is_init and self._has_init):
                found.append(fragment)
            self._has_init |= is_init
            self.frames += 0 if is_init else _pictures(fragment)
        return found

    def rest(self) -> bytes:
        """Return what stands behind the last fragment, and forget it."""
        rest, self._bytes = bytes(self._bytes), bytearray()
        return rest

    def _end(self) -> int:
        """Return the end of the first fragment; 0 while it is not whole."""
        for kind, start, size in _boxes(self._bytes):
            if kind in (b"moov", b"mdat") and start + size <= len(self._bytes):
                return start + size
        return 0


def _boxes(data: bytes | bytearray, start: int = 0, end: int | None = None) -> list[tuple[bytes, int, int]]:
    """Return kind, place and size of the boxes that lie side by side (ISO 14496-12, 4.2)."""
    found, end = [], len(data) if end is None else end
    while start + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, start)
        if size < 8:
            break
        found.append((kind, start, size))
        start += size
    return found


def _pictures(fragment: bytes) -> int:
    """Return the number of samples of the first track, the video, in a fragment (moof, traf, trun)."""
    count = 0
    moof = next((each for each in _boxes(fragment) if each[0] == b"moof"), None)
    for kind, start, size in _boxes(fragment, moof[1] + 8, moof[1] + moof[2]) if moof else ():
        parts = {each[0]: each[1] for each in _boxes(fragment, start + 8, start + size)} if kind == b"traf" else {}
        if parts and struct.unpack_from(">I", fragment, parts[b"tfhd"] + 12)[0] == 1 and b"trun" in parts:
            count += int(struct.unpack_from(">I", fragment, parts[b"trun"] + 12)[0])
    return count
