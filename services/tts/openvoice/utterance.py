"""Speaks pieces of text in a tone colour: a base speaker and the converter, one behind the other."""

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from services.tts.openvoice.converter import Converter
from services.tts.openvoice.decimation import Decimation
from services.tts.openvoice.manner import Manner
from services.tts.openvoice.noise import Gaussian
from services.tts.openvoice.speakers import Reading, Speaker, noise_of

STREAM_FRAMES: Final = (136, 86)
"""Frames of the pieces in which a sentence that is heard at once is spoken: the converter lags 110 behind them."""
BATCH_FRAMES: Final = (86,)
"""Frames of the pieces of a batch, 1 s: so long a cancelled call may go on."""
CONVERTER_SALT: Final = 1


class Utterance:
    """Pieces of text whose sounds are timed and whose sound is still to be made.

    Args:
        speaker: Speaks them.
        converter: Gives them another tone colour.
        readings: The pieces.
        manner: How to speak.

    Attributes:
        ends: For each piece the sample, at the converter's rate, at which each of its symbols ends.

    Raises:
        ValueError: The speaker's sample rate is no multiple of the converter's.
    """

    def __init__(self, speaker: Speaker, converter: Converter, readings: Sequence[Reading], manner: Manner) -> None:
        self._speaker = speaker
        self._converter = converter
        self._readings = readings
        self._spoken = speaker.utter(readings, manner)
        self._factor = factor_of(speaker, converter)
        hop = speaker.network.hop_samples // self._factor
        ends = (self._spoken.durations.cumsum(1) * hop).tolist()
        self.ends = [row[: len(reading.ids)] for row, reading in zip(ends, readings, strict=True)]
        self._lengths = self._spoken.frames * hop

    def plain(self) -> list[Tensor]:
        """Returns the sound of each piece before it is converted, float32 (n,) at the converter's rate."""
        sound = _decimated(self._speaker.network.decode(self._spoken), self._factor)
        return [row[:length] for row, length in zip(sound, self._lengths.tolist(), strict=True)]

    def whole(self, source: Tensor, target: Tensor, tau: float) -> Tensor:
        """Returns all that `converted` yields, piece after piece, float32 (n,)."""
        parts = list(zip(*self.converted(source, target, tau), strict=True))
        return torch.cat([torch.cat(row)[:length] for row, length in zip(parts, self._lengths.tolist(), strict=True)])

    def converted(self, source: Tensor, target: Tensor, tau: float) -> Iterator[list[Tensor]]:
        """Yields the next sound of each piece, float32 (n,) on the CPU; behind a piece's end come zeros.

        A single piece is spoken and converted as it goes, so that it is heard early; several are spoken in one go and
        then converted side by side.

        Args:
            source: Tone colour of the speaker in this manner, float32 (1, width).
            target: Tone colour of the identity, float32 (1, width).
            tau: How much the converter varies.
        """
        noise = noise_of(self._readings, CONVERTER_SALT)
        if len(self._readings) == 1:
            yield from self._streamed(source, target, tau, noise)
            return
        sound = _decimated(self._speaker.network.decode(self._spoken), self._factor)
        heard = self._converter.latents(sound, self._lengths, source, target, tau, noise)
        for piece in self._converter.decode_chunks(heard, BATCH_FRAMES):
            yield list(piece.cpu())

    def _streamed(self, source: Tensor, target: Tensor, tau: float, noise: Gaussian) -> Iterator[list[Tensor]]:
        decimation = Decimation(self._factor)
        conversion = self._converter.stream(source, target, tau, noise)
        for piece in self._speaker.network.decode_chunks(self._spoken, STREAM_FRAMES):
            yield [conversion.feed(decimation.feed(piece)[0]).cpu()]
        if self._factor > 1:
            yield [conversion.feed(decimation.finish()[0]).cpu()]
        yield [conversion.finish().cpu()]


def factor_of(speaker: Speaker, converter: Converter) -> int:
    """Returns how many samples of the speaker are one of the converter.

    Raises:
        ValueError: It is no whole number, or their frames differ in length.
    """
    factor, rest = divmod(speaker.network.sample_rate_hz, converter.sample_rate_hz)
    if rest or speaker.network.hop_samples != factor * converter.hop_samples:
        rates = f"{speaker.network.sample_rate_hz} Hz and {converter.sample_rate_hz} Hz"
        raise ValueError(f"speaker and converter work at {rates}; the first must be a multiple of the second")
    return factor


def _decimated(sound: Tensor, factor: int) -> Tensor:
    decimation = Decimation(factor)
    ready = decimation.feed(sound)
    return ready if factor == 1 else torch.cat([ready, decimation.finish()], dim=1)
