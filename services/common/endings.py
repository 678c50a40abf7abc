"""Whether a media file ends where it says: how many bytes it lacks at its end.

Only what a file states exactly counts: where its last piece (chunk, box, element, page, frame) ends. So there is no
tolerance and no false alarm: writers that cannot know a size say so, and that counts as whole. A length in seconds is
no such statement; recorders round it, guess it, or measure it by the clock. Nor is a missing end mark: messengers write
Ogg without one.
"""

from collections.abc import Callable

PIECES_MAX = 100_000
"""Pieces that are looked at: 60 s hold some 10,000 of them, and a file of 32 MiB could claim millions."""

_PLACEHOLDER_BYTES = 4096
_ELEMENTS_WITHOUT_END = (b"\x18S\x80g", b"\x1fC\xb6u")  # Segment, Cluster
_ELEMENTS = (  # What stands at their level: EBML, SeekHead, Info, Tracks, Cues, Attachments, Chapters, Tags, ...
    *_ELEMENTS_WITHOUT_END,
    *(b"\x1aE\xdf\xa3", b"\x11M\x9bt", b"\x15I\xa9f", b"\x16T\xaek", b"\x1cS\xbbk", b"\x19A\xa4i", b"\x10C\xa7p"),
    *(b"\x12T\xc3g", b"\xec", b"\xbf"),  # ... Void, CRC-32; then of a Cluster: what tells its time, and its blocks.
    *(b"\xe7", b"\xa7", b"\xab", b"\xa3", b"\xa0", b"\xaf"),
)
_KBITS = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
_RATES_HZ = (44_100, 48_000, 32_000)


def missing_bytes(content: bytes, kind: str) -> int:
    """Returns how many bytes the file lacks, at least, of what it says it holds; 0 when it is whole or does not say.

    Args:
        content: The file.
        kind: Its kind, as `containers.kind_of` names it.
    """
    if kind not in _PIECES:
        return 0
    at, end_of = _PIECES[kind]
    if kind == "mp3":
        at = _first_frame(content)
    for _ in range(PIECES_MAX):
        if at == len(content):
            break
        end = at if at > len(content) else end_of(content, at)
        if end is None:
            break
        if end > len(content):
            return end - len(content)
        at = end
    return max(0, _mp3_bytes(content) - len(content)) if kind == "mp3" else 0


def tells_duration(content: bytes, kind: str) -> bool:
    """Returns whether the file itself says how long it is; of others a demuxer guesses it from their size."""
    return kind in ("mp4", "matroska", "flac") or (kind == "mp3" and bool(_number(_mp3_tag(content), 0) & 1))


def _number(content: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(content[at : at + size], "big")


def _chunk_end(content: bytes, at: int) -> int | None:
    """A chunk of RIFF (WAV, AVI); only those that hold media count as cut."""
    if len(content) < at + 8:
        return None
    name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
    pictures = name == b"LIST" and content[at + 8 : at + 12] == b"movi"
    if name == b"data" or pictures:
        if content[12:16] == b"ds64":  # RF64 (EBU Tech 3306) keeps the size there.
            size = int.from_bytes(content[28:36], "little")
        # Writers that stream leave 0, or the largest number with or without a sign, often less the size of the header.
        if size == 0 or -size % 2**31 <= _PLACEHOLDER_BYTES:
            return at + 12 if pictures else None
    end = at + 8 + size
    if end > len(content):
        return end if name == b"data" or pictures or name[2:] in (b"dc", b"db", b"wb") else None
    return min(end + size % 2, len(content))  # some leave out the last padding


def _box_end(content: bytes, at: int) -> int | None:
    """A box of an MP4 (ISO/IEC 14496-12, 4.2); only those that hold media, or say where they are, count as cut."""
    if len(content) < at + 8:
        return None
    size, name = _number(content, at), content[at + 4 : at + 8]
    if size == 1:
        size = _number(content, at + 8, 8)
    end = at + size
    if size < 8 or (end > len(content) and name not in (b"moov", b"moof", b"mdat")):
        return None  # size 0: to the end of the file
    return end


def _element_end(content: bytes, at: int) -> int | None:
    """An element of WebM/Matroska (RFC 8794); of one without an end, where its first child begins."""
    name_end = at + 9 - content[at].bit_length()
    if name_end > at + 4 or not any(name.startswith(content[at:name_end]) for name in _ELEMENTS):
        return None  # What some programs append is no element.
    if name_end >= len(content):
        return name_end + 1
    width = 9 - content[name_end].bit_length()
    start, unknown = name_end + width, (1 << 7 * width) - 1
    if width > 8 or start > len(content):
        return None if width > 8 else start
    size = _number(content, name_end, width) & unknown
    if size == unknown:
        return start if content[at:name_end] in _ELEMENTS_WITHOUT_END else None
    return start + size


def _page_end(content: bytes, at: int) -> int | None:
    """A page of Ogg (RFC 3533, 6)."""
    if not b"OggS".startswith(content[at : at + 4]):
        return None
    body = at + 27
    if body <= len(content):
        body += content[at + 26]
    return body if body > len(content) else body + sum(content[at + 27 : body])


def _adts_end(content: bytes, at: int) -> int | None:
    """A frame of AAC (ISO/IEC 13818-7, 6.2)."""
    if content[at] != 0xFF or content[at + 1 : at + 2] not in (b"", b"\xf0", b"\xf1", b"\xf8", b"\xf9"):
        return None
    size = _number(content, at + 3, 3) >> 5 & 0x1FFF if len(content) >= at + 7 else 7
    return at + size if size >= 7 else None


def _mpeg_end(content: bytes, at: int) -> int | None:
    """A frame of MP3 (ISO/IEC 11172-3, 2.4.2.3; 13818-3, 2.4.2.3): layer III, of a tabled bit rate."""
    head = _number(content, at)
    if len(content) < at + 4 or head >> 21 != 0x7FF or head >> 17 & 3 != 1:
        return None
    version, kbits, rate = head >> 19 & 3, head >> 12 & 15, head >> 10 & 3  # versions: 3 is 1, 2 is 2, 0 is 2.5
    if version == 1 or kbits in (0, 15) or rate == 3:
        return None
    rate_hz = _RATES_HZ[rate] >> (2, 0, 1, 0)[version]
    per_kbit = 144_000 if version == 3 else 72_000
    return at + per_kbit * _KBITS[version != 3][kbits] // rate_hz + (head >> 9 & 1)


def _first_frame(content: bytes) -> int:
    """Returns where the sound of an MP3 file begins: behind its tag (ID3v2)."""
    if not content.startswith(b"ID3") or len(content) < 10:
        return 0
    size = 0
    for byte in content[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size + (10 if content[5] & 0x10 else 0)


def _mp3_tag(content: bytes) -> bytes:
    """Returns flags and what follows of the frame that tells the file's length (Xing); empty when there is none."""
    start = _first_frame(content)
    frame = content[start : start + 160]
    for name in (b"Xing", b"Info"):
        if (at := frame.find(name, 0, 44)) >= 0:
            return frame[at + 4 :]
    return b""


def _mp3_bytes(content: bytes) -> int:
    """Returns how many bytes of sound the file says it has; 0 when it does not say.

    Compared with the whole file, tags and all: encoders do not agree on what else they count.
    """
    tag = _mp3_tag(content)
    flags = _number(tag, 0)
    return _number(tag, 8 if flags & 1 else 4) if flags & 2 else 0


_PIECES: dict[str, tuple[int, Callable[[bytes, int], int | None]]] = {
    **{"wav": (12, _chunk_end), "avi": (12, _chunk_end), "mp4": (0, _box_end), "matroska": (0, _element_end)},
    **{"ogg": (0, _page_end), "aac": (0, _adts_end), "mp3": (0, _mpeg_end)},
}
"""By kind: where the first piece begins, and what tells where a piece ends; None when none begins at that place."""
