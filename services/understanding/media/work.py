"""One file being decoded, under limits.

Nothing that a file declares is believed before it is decoded, and every loop over it stops at a limit of samples,
pictures, pixels and seconds: no file can hang the service or exhaust its memory.
"""

from __future__ import annotations  # Packet is generic to the type checker, not at run time.

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from services.common.containers import kind_of
from services.common.errors import InvalidRequest, TooLarge

RATE_HZ = 16_000
"""Sample rate of the decoded sound."""

SIDE_PX_MAX = 4096
"""Longest side of a video's pictures."""

STREAMS_MAX = 16
"""Streams (sound, picture, subtitle …) that a file may have."""


@dataclass(frozen=True)
class Limits:
    """What is accepted, and how much is returned.

    Attributes:
        content_bytes_max: Size of the file.
        duration_s_max: Length of the sound and of the pictures.
        frames_max: Pictures that are returned.
        frame_side_px_max: Longest side of a returned picture; larger ones are scaled down.
        decode_s_max: Time that decoding may take; a file that takes longer is refused.
        decode_pixels_max: Pixels that are decoded at most: 290 pictures of 1920x1080, or 22 s of 1280x720 at 30 per
            second, which takes about a second on one thread. Of longer clips only as many pictures are decoded, the
            same number after each key picture, from which decoding can start.
    """

    content_bytes_max: int = 32 * 1024 * 1024
    duration_s_max: float = 60.0
    frames_max: int = 16
    frame_side_px_max: int = 640
    decode_s_max: float = 10.0
    decode_pixels_max: int = 600_000_000


class Work:
    """The limits, the time that is left, and what there is to tell about the file.

    Args:
        field: Name of the request's field, for errors and notes.
        limits: What is accepted.
    """

    def __init__(self, field: str, limits: Limits) -> None:
        self.field = field
        self.limits = limits
        self.notes: list[str] = []
        self.kind = ""
        """Of the file that was opened, one of `containers.KINDS`."""
        self._deadline_s = time.monotonic() + limits.decode_s_max

    def note(self, text: str) -> None:
        """Adds a note."""
        self.notes.append(f"{self.field}: {text}")

    def invalid(self, problem: str) -> InvalidRequest:
        """Returns the error that says `problem` of this field."""
        return InvalidRequest(self.field, problem)

    def too_large(self, problem: str) -> TooLarge:
        """Returns the error that says `problem` of this field."""
        return TooLarge(self.field, problem)

    @contextmanager
    def opened(self, content: bytes) -> Iterator[InputContainer]:
        """Opens the file and closes it again.

        Raises:
            InvalidRequest: It is empty, of no known kind, or damaged so that it cannot be opened or read.
            TooLarge: It has too many bytes or streams.
        """
        if len(content) > self.limits.content_bytes_max:
            found, most = len(content) / 2**20, self.limits.content_bytes_max / 2**20
            raise self.too_large(f"the file has {found:.1f} MiB; send at most {most:g} MiB")
        kind = self.kind = kind_of(content, self.field)
        options = {
            "max_streams": str(STREAMS_MAX + 1),
            "max_pixels": str(SIDE_PX_MAX**2),
            "probesize": str(2**20),
            "analyzeduration": "2000000",
            "protocol_whitelist": "none",
        }
        try:
            # Titles in another encoding are common, and nothing here reads them.
            with av.open(io.BytesIO(content), "r", format=kind, options=options, metadata_errors="replace") as source:
                if len(source.streams) > STREAMS_MAX:
                    raise self.too_large(f"the file has {len(source.streams)} streams; send at most {STREAMS_MAX}")
                yield source
        except av.FFmpegError as error:
            raise self.invalid(
                f"the {kind} file of {len(content)} bytes is damaged or incomplete ({error.strerror}); send it again"
            ) from error

    def packets(self, source: InputContainer, *streams: AudioStream | VideoStream) -> Iterator[Packet[Stream]]:
        """Yields the packets of `streams` as far as they can be read, and the empty ones that end each stream.

        Raises:
            TooLarge: The time is up.
        """
        try:
            for packet in source.demux(*streams):
                self.check_time()
                yield packet
        except av.FFmpegError as error:
            self.note(f"the file ends in damage ({error.strerror}); what comes before it was used")

    def check_time(self) -> None:
        """Raises TooLarge when the time is up."""
        if time.monotonic() > self._deadline_s:
            raise self.too_large(
                f"the file could not be decoded in {self.limits.decode_s_max:g} s; send a shorter or smaller clip"
            )

    def check_codec(self, stream: AudioStream | VideoStream, accepted: tuple[str, ...]) -> None:
        """Raises InvalidRequest unless the codec's name begins with one of `accepted`."""
        # PyAV has no context for a stream whose codec it does not know, whatever its types say.
        known = getattr(stream, "codec_context", None) is not None
        name = stream.codec_context.codec.canonical_name if known else "unknown"
        if not name.startswith(accepted):
            names = ", ".join(name.removesuffix("_") for name in accepted)
            raise self.invalid(f"the {stream.type} in the file is coded as {name}; use one of: {names}")
