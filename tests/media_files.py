"""Sound and film files as cameras, browsers and programs write them, by name; most last 2 s."""

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from types import MappingProxyType

import av
import numpy as np
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

from tests import samples

RATE_HZ = 48_000
NOISE = np.random.default_rng(0).integers(0, 256, (80, 48, 64, 3), np.uint8)
ENCODERS = {"libx264": {"preset": "ultrafast"}, "libvpx": {"deadline": "realtime", "cpu-used": "8"}}
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
INDEX_IN_FRONT = {"moov_size": "20000"}
EVENLY = tuple(count / 20 for count in range(40))
UNEVENLY = (0.0, 0.02, 0.05, 0.3, 0.31, 0.5, 0.9, 0.94, 1.0, 1.3, 1.31, 1.33, 1.7)


class Pipe:
    """Takes a file from its beginning to its end; nothing in it can be mended later."""

    def __init__(self) -> None:
        self.content = bytearray()

    def write(self, piece: bytes) -> int:
        self.content += piece
        return len(piece)


def recording(
    kind: str,
    picture: str = "",
    sound: str = "",
    *,
    shown_s: Sequence[float] = EVENLY,
    heard_s: float = 2.0,
    parts: Mapping[str, str] = MappingProxyType({}),
    pipe: bool = False,
) -> bytes:
    """A file of 2 s: pictures of noise, every tenth a key picture, and a tone; `parts` are the container's options."""
    file = Pipe() if pipe else io.BytesIO()
    with av.open(file, "w", format=kind, container_options=dict(parts)) as output:
        video = (
            output.add_stream(picture, rate=20, options={"g": "10", **ENCODERS.get(picture, {})}) if picture else None
        )
        audio = output.add_stream(sound, rate=RATE_HZ, layout="mono") if sound else None
        # The library holds packets back until it can lay both tracks side by side, as cameras do.
        if isinstance(video, VideoStream):
            video.width, video.height = 64, 48
            video.pix_fmt = "yuvj420p" if picture == "mjpeg" else "yuv420p"
            video.codec_context.time_base = Fraction(1, 20 if shown_s == EVENLY else 100)
            for image, time_s in zip(NOISE, shown_s, strict=False):
                shown = av.VideoFrame.from_ndarray(image, "rgb24").reformat(format=video.pix_fmt)
                shown.time_base = video.codec_context.time_base
                shown.pts = round(time_s / shown.time_base)
                output.mux(video.encode(shown))
            output.mux(video.encode(None))
        if isinstance(audio, AudioStream):
            tone = 0.3 * np.sin(np.arange(round(heard_s * RATE_HZ)) * 2 * np.pi * 220 / RATE_HZ).astype(np.float32)
            resampler = av.AudioResampler(audio.format, audio.layout, RATE_HZ)
            for start in range(0, len(tone), 960):
                heard = av.AudioFrame.from_ndarray(tone[None, start : start + 960], "fltp", "mono")
                heard.rate, heard.pts = RATE_HZ, start
                for piece in resampler.resample(heard):
                    output.mux(audio.encode(piece))
            output.mux(audio.encode(None))
    return bytes(file.content) if isinstance(file, Pipe) else file.getvalue()


def as_a_browser_records(content: bytes) -> bytes:
    """Takes the sizes of segment and clusters out of a WebM file, as writers leave them who never go back."""
    made, at = bytearray(), 0
    while at < len(content):
        name = 9 - content[at].bit_length()
        width = 9 - content[at + name].bit_length()
        size = int.from_bytes(content[at + name : at + name + width], "big") & (1 << 7 * width) - 1
        if content[at : at + 4] in (b"\x18S\x80g", b"\x1fC\xb6u"):
            made += content[at : at + name] + b"\x01" + 7 * b"\xff"
            size = 0
        else:
            made += content[at : at + name + width + size]
        at += name + width + size
    return bytes(made)


def wav_of_sizes(riff: int, data: int) -> bytes:
    content = bytearray(samples.wav(2.0))
    content[4:8], content[40:44] = struct.pack("<I", riff), struct.pack("<I", data)
    return bytes(content)


def without_end_mark(ogg: bytes) -> bytes:
    """As some messengers write it; the last page's checksum is not looked at by the demuxer."""
    at = ogg.rindex(b"OggS") + 5
    return ogg[:at] + bytes([ogg[at] & ~4]) + ogg[at + 1 :]


def late_fragments(content: bytes) -> bytes:
    """A fragmented MP4 that begins a quarter of an hour after zero, as one from the middle of a live stream."""
    made, at = bytearray(content), 0
    while (at := made.find(b"tfdt", at + 1)) > 0:
        time = slice(at + 8, at + 16 if made[at + 4] else at + 12)
        made[time] = (int.from_bytes(made[time], "big") + 900 * RATE_HZ).to_bytes(time.stop - time.start, "big")
    return bytes(made)


# These tell how long they are before what they hold, so a cut one still promises it.
PROMISING: dict[str, Callable[[], bytes]] = {
    "mp4": lambda: recording("mp4", "libx264", "aac", parts=INDEX_IN_FRONT),
    "mp4 of pictures": lambda: recording("mp4", "libx264", parts=INDEX_IN_FRONT),
    "mp4 of uneven pictures": lambda: recording("mp4", "libx264", "aac", shown_s=UNEVENLY, parts=INDEX_IN_FRONT),
    "mov": lambda: recording("mov", "mjpeg", "pcm_s16le", parts=INDEX_IN_FRONT),
    "mp4 of opus": lambda: recording("mp4", "", "libopus", parts=INDEX_IN_FRONT),
    "m4a": lambda: recording("ipod", "", "aac", parts=INDEX_IN_FRONT),
    "webm": lambda: recording("webm", "libvpx", "libopus"),
    "webm of sound": lambda: recording("webm", "", "libopus"),
    "matroska": lambda: recording("matroska", "libx264", "aac"),
    "flac": lambda: recording("flac", "", "flac"),
    "mp3": lambda: recording("mp3", "", "libmp3lame"),
    "wav": lambda: samples.wav(2.0),
    "wav, stereo": lambda: samples.wav(2.0, 44_100, channels=2),
    "wav, adpcm": lambda: recording("wav", "", "adpcm_ima_wav"),
    "wav, 64 bit": lambda: recording("wav", "", "pcm_s16le", parts={"rf64": "always"}),
}
# These promise no length, but a cut through one of their pieces shows.
RECORDED: dict[str, Callable[[], bytes]] = {
    "mp4 in fragments": lambda: recording("mp4", "libx264", "aac", pipe=True, parts=FRAGMENTED),
    "webm from a browser": lambda: as_a_browser_records(recording("webm", "libvpx", "libopus", pipe=True)),
    "sound from a browser": lambda: as_a_browser_records(recording("webm", "", "libopus", pipe=True)),
    "webm, live": lambda: recording("webm", "libvpx", "libopus", pipe=True, parts={"live": "1"}),
    "ogg": lambda: recording("ogg", "", "libopus"),
    "aac": lambda: recording("adts", "", "aac"),
    "mp3 of a stream": lambda: recording("mp3", "", "libmp3lame", parts={"write_xing": "0", "id3v2_version": "0"}),
    "avi": lambda: recording("avi", "mjpeg", "pcm_s16le"),
    "avi of a stream": lambda: recording("avi", "mjpeg", "pcm_s16le", pipe=True),
}
# These are whole, though they look as if something were missing, or cannot be told when it is.
WHOLE: dict[str, Callable[[], bytes]] = {
    "mp4 with its index behind": lambda: recording("mp4", "libx264", "aac"),
    "mp4 of longer sound": lambda: recording("mp4", "libx264", "aac", heard_s=4.3, parts=INDEX_IN_FRONT),
    "mp4 of longer pictures": lambda: recording("mp4", "libx264", "aac", heard_s=0.4, parts=INDEX_IN_FRONT),
    "mp4 with junk behind": lambda: recording("mp4", "libx264", "aac", parts=INDEX_IN_FRONT) + b"some junk at its end",
    "mp4 in late fragments": lambda: late_fragments(recording("mp4", "libx264", "aac", parts=FRAGMENTED)),
    "mp4 in fragments without end": lambda: recording(
        "mp4", "libx264", "aac", parts={"movflags": "frag_keyframe+empty_moov+skip_trailer"}
    ),
    "webm of longer sound": lambda: recording("webm", "libvpx", "libopus", heard_s=4.3),
    "webm of longer pictures": lambda: recording("webm", "libvpx", "libopus", heard_s=0.4),
    "webm of uneven pictures": lambda: recording("webm", "libvpx", "libopus", shown_s=UNEVENLY),
    "webm with a line break behind": lambda: RECORDED["webm from a browser"]() + b"\r\n",
    "ogg without an end mark": lambda: without_end_mark(recording("ogg", "", "libopus")),
    "flac of a stream": lambda: recording("flac", "", "flac", pipe=True),
    "mp3 through a pipe": lambda: recording("mp3", "", "libmp3lame", pipe=True),
    "mp3 with a tag behind": lambda: recording("mp3", "", "libmp3lame", parts={"write_id3v1": "1"}),
    "wav through a pipe": lambda: recording("wav", "", "pcm_s16le", pipe=True),
    "wav of no size": lambda: wav_of_sizes(0, 0),
    "wav of the largest size": lambda: wav_of_sizes(0xFFFFFFFF, 0xFFFFFFFF),
    "wav of the largest size less its header": lambda: wav_of_sizes(0xFFFFFFFF, 0xFFFFFFFF - 36),
    "wav of the largest signed size": lambda: wav_of_sizes(0x7FFFF024, 0x7FFFF000),
    "wav with half a title behind": lambda: samples.wav(2.0) + b"LIST\x10\x00\x00\x00INFO",
}


def places_of(content: bytes, kind: str) -> list[slice]:
    """Where the packets of the first track of this kind lie."""
    with av.open(io.BytesIO(content), "r") as source:
        stream = source.streams.best(kind)  # type: ignore[arg-type]
        return [
            slice(packet.pos or 0, (packet.pos or 0) + packet.size) for packet in source.demux(stream) if packet.size
        ]


@cache
def made(name: str) -> bytes:
    return (PROMISING | RECORDED | WHOLE)[name]()
