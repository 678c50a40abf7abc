"""A performance while it is written to a file."""

from collections.abc import Iterator, Sequence

import numpy as np

from services.video.backlog import Promise
from services.video.domain import Frame, Performance, Progress, Speech
from services.video.encoding import FragmentedMp4

_SILENCE = np.empty(0, np.int16)


class Film:
    """One reply or segment; used on the model's thread.

    Args:
        performance: What renders it.
        file: What it is written to.
        promise: Is told how much of it is rendered.
    """

    def __init__(self, performance: Performance, file: FragmentedMp4, promise: Promise) -> None:
        self._performance = performance
        self._file = file
        self._promise = promise

    def add(self, speech: Speech) -> Iterator[bytes | Progress]:
        """Takes the next stretch of speech; yields the chunks of video that are complete, and the renderer's steps."""
        yield from self._file.add((), speech.samples)
        yield from self._write(self._performance.feed(speech))

    def finish(self) -> Iterator[bytes | Progress]:
        """Yields what remains."""
        yield from self._write(self._performance.finish())
        yield from self._file.finish()

    def render(self, speeches: Sequence[Speech]) -> Iterator[bytes | Progress]:
        """Takes all the speech at once; yields what `add` and `finish` would, and no chunk before the first frame.

        Until then nothing is lost when the call is made again elsewhere.
        """
        sound = np.concatenate([_SILENCE, *(speech.samples for speech in speeches)])
        step = 1 + speeches[0].sample_rate_hz // self._file.fps if speeches else 0
        for item in self._played(speeches):
            if isinstance(item, Progress):
                yield self._noted(item)
            else:
                yield from self._file.add((item,), sound[:step])
                sound = sound[step:]
        yield from self._file.add((), sound)
        yield from self._file.finish()

    def _played(self, speeches: Sequence[Speech]) -> Iterator[Frame | Progress]:
        for speech in speeches:
            yield from self._performance.feed(speech)
        yield from self._performance.finish()

    def _write(self, items: Iterator[Frame | Progress]) -> Iterator[bytes | Progress]:
        for item in items:
            if isinstance(item, Progress):
                yield self._noted(item)
            else:
                yield from self._file.add((item,), _SILENCE)

    def _noted(self, step: Progress) -> Progress:
        self._promise.progressed(step.done)
        return step
