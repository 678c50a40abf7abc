"""What a replica has promised to render: refuses early what would come too late, and lowers the quality before that."""

import threading
import time
from collections.abc import Sequence

from services.common import metrics
from services.common.errors import Overloaded
from services.video.domain import Backend

RETRY_S_MIN = 0.1


class Backlog:
    """The seconds of rendering that are promised and not done; calls are rendered one after another.

    Args:
        backend: The renderer, which knows what a call costs.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._promises: set[Promise] = set()
        self._gauge = metrics.BACKLOG_SECONDS.labels("video", backend.model)
        self.moved_s = 0.0
        """When (monotonic) a renderer last got on with any call; who waits for it may wait on."""

    @property
    def seconds(self) -> float:
        """The backlog."""
        with self._lock:
            return self._sum()

    def promise(self, duration_s: float, tiers: Sequence[str], remaining_s: float | None) -> "Promise":
        """Accepts a call, at the best quality with which it can end in time.

        A caller that set no deadline gets the best. One that waits gains nothing within the same deadline, because
        the backlog and the time that remains shrink alike: `retry_after_s` is when a call that is allowed as much
        time as this one was could be taken. Another replica may take it at once.

        Args:
            duration_s: Seconds of speech.
            tiers: The qualities that may be used, best first.
            remaining_s: Seconds that the caller still allows; None when it set no deadline.

        Raises:
            Overloaded: No tier can end in time.
        """
        with self._lock:
            before_s, cost_s = self._sum(), 0.0
            for quality in tiers:
                cost_s = self._backend.cost_s(duration_s, quality)
                if remaining_s is None or not cost_s or before_s + cost_s <= remaining_s:
                    promise = Promise(self, quality, cost_s, before_s)
                    self._promises.add(promise)
                    self._tell()
                    return promise
        late_s = max(RETRY_S_MIN, before_s + cost_s - (remaining_s or 0.0))
        raise Overloaded(
            f"{before_s:.1f} s of rendering are promised already and {duration_s:.1f} s of speech at the lowest"
            f" quality that may be used, {tiers[-1]!r}, cost {cost_s:.1f} s more, but the caller's deadline is in"
            f" {remaining_s:.1f} s; allow {late_s:.1f} s more, or retry in {late_s:.1f} s",
            late_s,
        )

    def moved(self, promise: "Promise", done: float) -> None:
        """Notes that the renderer got on with a promise, of which `done` (0 to 1) is rendered."""
        with self._lock:
            self.moved_s = time.monotonic()
            promise.left_s = min(promise.left_s, promise.cost_s * (1 - done))
            self._tell()

    def end(self, promise: "Promise") -> None:
        """Takes back what is left of a promise: the call is rendered, has failed, or nobody wants it any more."""
        with self._lock:
            self._promises.discard(promise)
            self._tell()

    def _sum(self) -> float:
        return sum((promise.left_s for promise in self._promises), 0.0)

    def _tell(self) -> None:
        self._gauge.set(self._sum())


class Promise:
    """A call that was accepted; ends with the `with` block.

    Attributes:
        quality: The tier that is used.
        cost_s: Seconds that rendering it takes.
        before_s: Seconds that were promised to others before.
        left_s: Seconds of it that are not rendered yet.
    """

    def __init__(self, backlog: Backlog, quality: str, cost_s: float, before_s: float) -> None:
        self._backlog = backlog
        self.quality = quality
        self.cost_s = self.left_s = cost_s
        self.before_s = before_s

    def __enter__(self) -> "Promise":
        return self

    def __exit__(self, *_: object) -> None:
        self._backlog.end(self)

    def progressed(self, done: float) -> None:
        """Notes how much of it is rendered, 0 to 1."""
        self._backlog.moved(self, done)
