"""A sound or video file becoming samples and frames."""

from dataclasses import dataclass

import numpy as np
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream
from numpy.typing import NDArray

from services.understanding.media.film import Film, Frame
from services.understanding.media.reach import Track, shortfall
from services.understanding.media.sound import Sound
from services.understanding.media.work import RATE_HZ, Limits, Work


@dataclass(frozen=True)
class Audio:
    """Sound: `samples` is float32 (n,), mono, `RATE_HZ`, -1 to 1."""

    samples: NDArray[np.float32]

    @property
    def duration_s(self) -> float:
        """Its length."""
        return len(self.samples) / RATE_HZ


@dataclass(frozen=True)
class Media:
    """What a file holds.

    Attributes:
        audio: Its sound; None when it has none that can be heard.
        frames: Pictures evenly spread over the clip, in order of time; empty when it has none.
        notes: What was altered or is missing, one short text each ("audio: mixed 2 channels down to 1").
        cut: Of a file that ends before it says, how much came of how much; it is among the notes too.
    """

    audio: Audio | None
    frames: tuple[Frame, ...]
    notes: tuple[str, ...]
    cut: str = ""


def read_audio(content: bytes, limits: Limits | None = None) -> Media:
    """Decodes a sound file. Of a video file the sound is taken.

    A file that ends before it says is decoded as far as it goes, and a note says how far.

    Raises:
        InvalidRequest: Field `audio`: empty, of no known kind, damaged, without a sound track, too short or silent.
        TooLarge: Field `audio`: too many bytes, seconds or channels.
    """
    work = Work("audio", limits or Limits())
    with work.opened(content) as source:
        if not source.streams.audio:
            raise work.invalid("the file has no sound track; send one that has, or send it as video")
        sound = Sound(work, source.streams.audio[0])
        if _picture_tracks(source):
            work.note("the file's pictures were not used; send it as video for that")
        for packet in work.packets(source, sound.stream):
            sound.take(packet)
        cut = _cut(content, work, source, None, sound)
        samples = sound.samples()
    if samples is None:
        remedy = f"{cut}; send the whole file" if cut else "check the microphone and record it again"
        raise work.invalid(f"no sound: {sound.problem}; {remedy}")
    return Media(Audio(samples), (), tuple(work.notes), cut)


def read_video(content: bytes, limits: Limits | None = None) -> Media:
    """Decodes a video file: its pictures and its sound. A file without pictures is treated as a sound file.

    A file that ends before it says is decoded as far as it goes, and a note says how far.

    Raises:
        InvalidRequest: Field `video`: empty, of no known kind, damaged, or with neither pictures nor sound.
        TooLarge: Field `video`: too many bytes, seconds, pixels, pictures or channels.
    """
    work = Work("video", limits or Limits())
    with work.opened(content) as source:
        pictures = _picture_tracks(source)
        film = Film(work, pictures[0]) if pictures else None
        sound = Sound(work, source.streams.audio[0]) if source.streams.audio else None
        if film is None and sound is None:
            raise work.invalid("the file has neither pictures nor sound; send a clip that has")
        if film is None:
            work.note("the file has no pictures; its sound was used")
        if sound is None:
            work.note("the file has no sound track")
        for packet in work.packets(source, *(track.stream for track in (film, sound) if track)):
            if sound and packet.stream_index == sound.stream.index:
                sound.take(packet)
            elif film:
                film.take(packet)
        cut = _cut(content, work, source, film, sound)
        samples = sound.samples() if sound else None
        frames = film.frames() if film else ()
    _check_usable(work, film, sound, cut)
    return Media(None if samples is None else Audio(samples), frames, tuple(work.notes), cut)


def _cut(content: bytes, work: Work, source: InputContainer, film: Film | None, sound: Sound | None) -> str:
    """Returns how much came of how much, and notes it; empty when all came."""
    tracks = [Track("its pictures end", film.stream, film.reach)] if film else []
    tracks += [Track("its sound ends", sound.stream, sound.reach)] if sound else []
    cut = shortfall(content, work, source, tracks)
    if cut:
        work.note(f"{cut}; what is there was used")
    return cut


def _check_usable(work: Work, film: Film | None, sound: Sound | None, cut: str) -> None:
    """Notes which track could not be used.

    Raises:
        InvalidRequest: Neither could.
    """
    remedy = f"{cut}; send the whole file" if cut else "record it again"
    if film is None and sound and sound.problem:
        raise work.invalid(f"the file has no pictures, and {sound.problem}; {remedy}")
    if film and film.problem and (sound is None or sound.problem):
        heard = f", and {sound.problem}" if sound else ""
        raise work.invalid(f"{film.problem}{heard}; {remedy if cut else 'send the clip again'}")
    if film and film.problem:
        work.note(f"the pictures were not used: {film.problem}")
    if sound and sound.problem:
        work.note(f"the sound was not used: {sound.problem}")


def _picture_tracks(source: InputContainer) -> list[VideoStream]:
    # The cover of a song is a video stream too.
    return [stream for stream in source.streams.video if not stream.disposition & Disposition.attached_pic]
