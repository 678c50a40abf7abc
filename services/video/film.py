"""A performance while it is written to a file."""

from collections.abc import Generator, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from services.video.domain import Frame, Performance, Progress, Speech
from services.video.encoding import FragmentedMp4

_SILENCE = np.empty(0, np.int16)


class Film:
    """One reply or segment; used on the model's thread.

    Args:
        performance: What renders it.
        file: What it is written to.
    """

    def __init__(self, performance: Performance, file: FragmentedMp4) -> None:
        self._performance = performance
        self._file = file

    def add(self, speech: Speech) -> Iterator[bytes | Progress]:
        """Takes the next stretch of speech; yields the chunks of video that are complete, and the renderer's steps."""
        yield from self._file.add((), speech.samples)
        yield from self._encoded(self._performance.feed(speech))

    def finish(self) -> Iterator[bytes | Progress]:
        """Yields what remains."""
        yield from self._encoded(self._performance.finish())
        yield from self._file.finish()

    def render(self, speeches: Sequence[Speech]) -> Generator[bytes | Progress]:
        """Takes all the speech at once; yields what `add` and `finish` would, and no chunk before the first frame.

        Until then nothing is lost when the call is made again elsewhere.
        """
        sound = np.concatenate([_SILENCE, *(speech.samples for speech in speeches)])
        yield from self._encoded(self._played(speeches), sound)
        yield from self._file.finish()

    def _played(self, speeches: Sequence[Speech]) -> Iterator[Frame | Progress]:
        for speech in speeches:
            yield from self._performance.feed(speech)
        yield from self._performance.finish()

    def _encoded(
        self, items: Iterator[Frame | Progress], sound: NDArray[np.int16] = _SILENCE
    ) -> Iterator[bytes | Progress]:
        """Encodes frames, each with what is heard while it is shown, and then the rest of the sound."""
        for item in items:
            if isinstance(item, Progress):
                yield item
            else:
                yield from self._file.add((item,), sound[: self._file.samples_a_frame])
                sound = sound[self._file.samples_a_frame :]
        yield from self._file.add((), sound)
