"""A sound track becoming mono samples at one rate."""

from __future__ import annotations  # Packet is generic to the type checker, not at run time.

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.packet import Packet
from av.stream import Stream
from numpy.typing import NDArray

from services.understanding.media.reach import Reach
from services.understanding.media.work import RATE_HZ, Work

SILENCE_PEAK = 1e-3
"""Loudest sample, apart from a constant offset, below which there is no sound: -60 dB of full scale."""

DURATION_S_MIN = 0.1
CHANNELS_MAX = 8
RATE_HZ_MIN = 4_000
RATE_HZ_MAX = 384_000

# What cameras, browsers and recorders write. Rare decoders stay out: they are where the holes are.
PLAIN = ("pcm_", "adpcm_ima_wav", "adpcm_ms")
CODECS = (*PLAIN, "aac", "opus", "vorbis", "mp3", "flac", "alac")


class Sound:
    """Takes the packets of one track; then tells what they hold.

    Args:
        work: The file; gets the notes.
        stream: The track.

    Raises:
        InvalidRequest: The codec or the sample rate is none that is accepted.
        TooLarge: It has too many channels.
    """

    def __init__(self, work: Work, stream: AudioStream) -> None:
        self.stream = stream
        self.reach = Reach()
        self._work = work
        self._pieces: list[NDArray[np.float32]] = []
        self._length = 0
        self._damaged = 0
        self._problem = ""
        work.check_codec(stream, CODECS)
        self._check_declared()
        self._resampler = AudioResampler(format="fltp", rate=RATE_HZ)

    def _check_declared(self) -> None:
        channels, rate_hz = self.stream.codec_context.layout.nb_channels, self.stream.codec_context.sample_rate
        if channels > CHANNELS_MAX:
            raise self._work.too_large(f"the sound has {channels} channels; send at most {CHANNELS_MAX}, best is 1")
        if not RATE_HZ_MIN <= rate_hz <= RATE_HZ_MAX:
            raise self._work.invalid(
                f"the sound has {rate_hz} samples per second; send {RATE_HZ_MIN} to {RATE_HZ_MAX}, best is {RATE_HZ}"
            )

    def take(self, packet: Packet[Stream]) -> None:
        """Decodes the next packet, or what is left when it is the empty last one.

        Raises:
            InvalidRequest: The track changes its rate or channels on the way.
            TooLarge: It is longer than the limit.
        """
        # It lacks its end, and some decoders make noise of the rest; of plain samples those that came are good.
        if packet.is_corrupt and not self.stream.codec_context.name.startswith(PLAIN):
            self._damaged += 1
            return
        frames: list[AudioFrame | None] = []
        try:
            frames += self.stream.codec_context.decode(packet)
        except av.FFmpegError:
            self._damaged += 1
        else:
            self.reach.take(packet)
        if packet.size == 0:
            frames.append(None)
        for frame in frames:
            self._append(frame)

    def _append(self, frame: AudioFrame | None) -> None:
        try:
            resampled = self._resampler.resample(frame)
        except ValueError as error:
            raise self._work.invalid("the sound changes its rate or channels on the way; send one format") from error
        for piece in resampled:
            # A piece is float32 (channels, n): "fltp" is planar.
            self._pieces.append(np.asarray(piece.to_ndarray(), np.float32))
            self._length += piece.samples
        most_s = self._work.limits.duration_s_max
        if self._length > most_s * RATE_HZ:
            raise self._work.too_large(f"the sound is longer than {most_s:g} s; send at most {most_s:g} s")

    def samples(self) -> NDArray[np.float32] | None:
        """Returns all of it as float32 (n,), mono, `RATE_HZ`, -1 to 1; None when there is none, `problem` says why.

        Raises:
            InvalidRequest: It holds values that are no numbers.
        """
        if self._damaged:
            self._work.note(f"damaged pieces of the sound that were left out: {self._damaged}")
        if self._length < DURATION_S_MIN * RATE_HZ:
            self._problem = f"the sound is {self._length / RATE_HZ:.2f} s long, it must have {DURATION_S_MIN:g} s"
            return None
        channels = np.concatenate(self._pieces, axis=1)
        if not np.isfinite(channels).all():
            raise self._work.invalid("the sound holds values that are not numbers (NaN or infinity); export it again")
        channels = channels - channels.mean(axis=1, keepdims=True)
        if float(np.abs(channels).max()) < SILENCE_PEAK:
            peak, least = _decibels(channels), _decibels(SILENCE_PEAK)
            self._problem = f"the sound is silent, its peak is {peak} dB of full scale and must be above {least} dB"
            return None
        return self._scaled(self._mixed(channels))

    @property
    def problem(self) -> str:
        """Why `samples` returned None; empty otherwise."""
        return self._problem

    def _mixed(self, channels: NDArray[np.float32]) -> NDArray[np.float32]:
        rate_hz = self.stream.codec_context.sample_rate
        if rate_hz != RATE_HZ:
            self._work.note(f"sound resampled from {rate_hz} to {RATE_HZ} samples per second")
        if len(channels) == 1:
            return np.ascontiguousarray(channels[0])
        mono = channels.mean(axis=0)
        if float(np.abs(mono).max()) < SILENCE_PEAK:
            # Channels in opposite phase, as from a wrongly wired cable, cancel each other.
            self._work.note(f"the {len(channels)} channels cancel each other; used the loudest one")
            return np.ascontiguousarray(channels[np.abs(channels).max(axis=1).argmax()])
        self._work.note(f"mixed {len(channels)} channels down to 1")
        return np.asarray(mono, np.float32)

    def _scaled(self, mono: NDArray[np.float32]) -> NDArray[np.float32]:
        peak = float(np.abs(mono).max())
        if peak <= 1.0:
            return mono
        if peak > 1.1:  # Less is what a lossy codec or the resampler overshoots by.
            self._work.note(f"sound scaled down from a peak of {peak:.3g} to 1")
        return np.asarray(mono / peak, np.float32)


def _decibels(values: NDArray[np.float32] | float) -> str:
    peak = float(np.abs(values).max())
    return f"{20 * np.log10(peak):.0f}" if peak > 0 else "minus infinity"
