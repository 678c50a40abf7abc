"""What kind of file it is, told by its first bytes, and whether what its header claims is possible.

The demuxer is chosen here and never guessed by the library: some formats that it would recognise (playlists,
descriptions of other files) make it open further files.
"""

import struct
from collections.abc import Collection, Iterator

from services.common.errors import InvalidRequest, TooLarge

KINDS = {
    **{"wav": "WAV", "flac": "FLAC", "mp3": "MP3", "aac": "AAC", "ogg": "Ogg"},
    **{"matroska": "WebM/Matroska", "mp4": "MP4/MOV", "avi": "AVI"},
}
"""The kinds that are known: name of the demuxer, and as people say."""

SAMPLES_MAX = 100_000
"""Samples (coded pictures or pieces of sound, ISO/IEC 14496-12) that the tracks of an MP4 may declare together.

60 s hold 7200 pictures at 120 per second. The demuxer takes about 80 bytes for each that is declared, whether it is
there or not, so a header of a few bytes could claim gigabytes.
"""

PCM_SAMPLES_MAX = 3_000_000
"""The same for uncompressed sound, where each of 48000 values per second is a sample."""

_MP4_BOXES = frozenset({b"ftyp", b"styp", b"moov", b"mdat", b"wide", b"free", b"skip"})
_MP4_PARENTS = frozenset({b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf"})
_MP4_DEPTH_MAX = 8
_MP4_PCM = frozenset({b"sowt", b"twos", b"lpcm", b"raw ", b"in24", b"in32", b"fl32", b"fl64", b"ulaw", b"alaw"})
# Where a box that declares samples keeps their count, after its 8-byte head: sample size table (plain, compact), run.
_MP4_COUNT_AT = {b"stsz": 8, b"stz2": 8, b"trun": 4}


def kind_of(content: bytes, field: str, accepted: Collection[str] = tuple(KINDS)) -> str:
    """Returns the name of the demuxer for the file.

    Args:
        content: The file.
        field: Name of the request's field, for errors.
        accepted: Which of `KINDS` it may be.

    Raises:
        InvalidRequest: It is empty or none of the accepted kinds; the message shows how it begins.
        TooLarge: An MP4 header declares more samples than any clip within the limits has.
    """
    *names, last = [KINDS[kind] for kind in accepted]
    remedy = f"send {', '.join(names)} or {last}"
    if not content:
        raise InvalidRequest(field, f"the file is empty (0 bytes); {remedy}")
    kind = _recognise(content)
    if kind is None:
        raise InvalidRequest(
            field, f"{len(content)} bytes beginning with {content[:12]!r} are no media file known here; {remedy}"
        )
    if kind not in accepted:
        raise InvalidRequest(field, f"the file is {KINDS[kind]}; {remedy}")
    if kind == "mp4":
        _check_mp4(content, field)
    return kind


def _recognise(content: bytes) -> str | None:
    if content[:4] in (b"RIFF", b"RF64"):
        return {b"WAVE": "wav", b"AVI ": "avi"}.get(content[8:12])
    if content[4:8] in _MP4_BOXES:
        return "mp4"
    for magic, kind in ((b"\x1aE\xdf\xa3", "matroska"), (b"OggS", "ogg"), (b"fLaC", "flac"), (b"ID3", "mp3")):
        if content.startswith(magic):
            return kind
    if len(content) > 4 and content[0] == 0xFF and content[1] & 0xE0 == 0xE0:
        # MPEG audio: twelve (or eleven) sync bits; layer bits 00 mean ADTS, others MP3 (ISO/IEC 13818-3, -7).
        return "mp3" if content[1] & 0x06 else "aac"
    return None


def _check_mp4(content: bytes, field: str) -> None:
    most, declared = SAMPLES_MAX, {SAMPLES_MAX: 0, PCM_SAMPLES_MAX: 0}
    for name, body in _mp4_boxes(content, 0, len(content)):
        if name == b"stsd":  # How the track is coded; it comes before the table of its samples.
            most = PCM_SAMPLES_MAX if body[12:16] in _MP4_PCM else SAMPLES_MAX
        if name in _MP4_COUNT_AT:
            at = _MP4_COUNT_AT[name]
            declared[most] += int.from_bytes(body[at : at + 4], "big")
        if declared[most] > most:
            raise TooLarge(
                field, f"its tracks declare {declared[most]} samples; a clip within the limits has {most} at most"
            )


def _mp4_boxes(content: bytes, start: int, end: int, depth: int = 0) -> Iterator[tuple[bytes, bytes]]:
    """Yields name and first bytes of the boxes that are not parents, in order, depth first."""
    at = start
    while at + 8 <= end:
        size, name = struct.unpack(">I4s", content[at : at + 8])
        head = 8
        if size == 1:
            size, head = int.from_bytes(content[at + 8 : at + 16], "big"), 16
        stop = end if size == 0 else min(end, at + size)
        if stop < at + head:
            return
        if name in _MP4_PARENTS and depth < _MP4_DEPTH_MAX:
            yield from _mp4_boxes(content, at + head, stop, depth + 1)
        else:
            yield name, content[at + head : min(stop, at + head + 16)]
        at = stop
