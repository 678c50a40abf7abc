"""Speaks pieces of text in a tone colour: a base speaker and the converter, one behind the other."""

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from services.tts.openvoice.converter import Converter
from services.tts.openvoice.decimation import Decimation
from services.tts.openvoice.manner import Manner
from services.tts.openvoice.speakers import Reading, Speaker, noise_of

STREAM_FRAMES: Final = (136, 86)
"""Frames of the pieces that are spoken between two looks at whether anybody still listens, 1 s; the first piece is
longer, for the converter lags 110 behind."""
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
        return self._rows(self._sound())

    def whole(self, source: Tensor, target: Tensor, tau: float) -> list[Tensor]:
        """Returns the converted sound of each piece, float32 (n,); for its arguments see `converted`."""
        noise = noise_of(self._readings, CONVERTER_SALT)
        return self._rows(self._converter.convert(self._sound(), self._lengths, source, target, tau, noise))

    def converted(self, source: Tensor, target: Tensor, tau: float) -> Iterator[list[Tensor]]:
        """Yields the next sound of each piece, float32 (n,) on the CPU; behind a piece's end come zeros.

        All pieces are spoken and converted side by side as they go, a second of each at a time: so they are heard
        early, and however long they are, no more than that is computed for a listener who has left.

        Args:
            source: Tone colour of the speaker in this manner, float32 (1, width).
            target: Tone colour of the identity, float32 (1, width).
            tau: How much the converter varies.
        """
        decimation = Decimation(self._factor)
        conversion = self._converter.stream(
            self._lengths, source, target, tau, noise_of(self._readings, CONVERTER_SALT)
        )
        for piece in self._speaker.network.decode_chunks(self._spoken, STREAM_FRAMES):
            yield list(conversion.feed(decimation.feed(piece)).cpu())
        yield list(conversion.feed(decimation.finish(), last=True).cpu())

    def _sound(self) -> Tensor:
        decimation = Decimation(self._factor)
        ready = decimation.feed(self._speaker.network.decode(self._spoken))
        return torch.cat([ready, decimation.finish()], dim=1)

    def _rows(self, sound: Tensor) -> list[Tensor]:
        return [row[:length] for row, length in zip(sound, self._lengths.tolist(), strict=True)]


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
