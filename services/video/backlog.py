"""Backlog of a replica: refuses early what would come too late, and lowers the quality before that."""

import threading
import time
from collections.abc import Sequence

from services.common import metrics
from services.common.errors import Overloaded
from services.video.domain import Backend

NEWS = 0.2
"""How much what one call really took counts against those before it."""
ERROR_MAX = 2.0
"""A renderer is never believed to be wrong by more than this factor: one bad minute must not refuse all calls, since
what is refused teaches nothing."""


class Backlog:
    """The seconds of rendering that are promised and not done; calls are rendered in the order of their promises.

    What a call costs is the renderer's word times what its word was worth with the last calls, which were also rigged
    and encoded.

    Args:
        name: Name of the back-end, for metrics.
        backend: The renderer, which knows what a call costs.
        variant: Name of the variant that this process belongs to, for metrics.
    """

    def __init__(self, name: str, backend: Backend, variant: str = metrics.VARIANT) -> None:
        self._backend = backend
        self._refusals = metrics.REFUSALS.labels("video", name, variant, "deadline")
        self._lock = threading.Lock()
        self._promises: set[Promise] = set()
        self._moved_s = 0.0
        self._took = 1.0

    @property
    def seconds(self) -> float:
        """The backlog."""
        with self._lock:
            return self._sum()

    def moved_since(self, time_s: float) -> bool:
        """Tells whether the renderer got on with any call since then (monotonic); who waits for it may wait on."""
        return self._moved_s >= time_s

    def check(self, duration_s: float, tiers: Sequence[str], remaining_s: float | None) -> None:
        """Refuses what could not be promised now; the arguments and the error are those of `promise`."""
        with self._lock:
            self._fitting(duration_s, tiers, remaining_s)

    def promise(self, duration_s: float, tiers: Sequence[str], remaining_s: float | None) -> "Promise":
        """Accepts a call, at the best quality with which it can end in time.

        A caller that set no deadline gets the best. Within the same deadline one that waits gains nothing, because the
        backlog and the time that remains shrink alike: `retry_after_s` is when a call that is allowed as much time as
        this one could be taken, and None when that time is too short even for an idle renderer. Another replica may
        take it at once.

        Args:
            duration_s: Seconds of speech.
            tiers: The qualities that may be used, best first.
            remaining_s: Seconds that the caller still allows; None when it set no deadline.

        Raises:
            Overloaded: No tier can end in time.
        """
        with self._lock:
            promise = self._fitting(duration_s, tiers, remaining_s)
            self._promises.add(promise)
            return promise

    def moved(self, promise: "Promise", done: float) -> None:
        """Notes that the renderer got on with a promise, of which `done` (0 to 1) is rendered."""
        with self._lock:
            self._moved_s = time.monotonic()
            promise.left_s = min(promise.left_s, promise.cost_s * (1 - done))

    def learn(self, reckoned_s: float, took_s: float) -> None:
        """Notes what a call took of which the renderer had said that it takes `reckoned_s`."""
        if not reckoned_s:
            return
        with self._lock:
            took = min(max(took_s / reckoned_s, 1 / ERROR_MAX), ERROR_MAX)
            self._took += NEWS * (took - self._took)

    def end(self, promise: "Promise") -> None:
        """Takes back what is left of a promise: the call is rendered, has failed, or nobody wants it any more."""
        with self._lock:
            self._promises.discard(promise)

    def _fitting(self, duration_s: float, tiers: Sequence[str], remaining_s: float | None) -> "Promise":
        before_s, cost_s = self._sum(), 0.0
        for quality in tiers:
            reckoned_s = self._backend.cost_s(duration_s, quality)
            cost_s = reckoned_s * self._took
            if remaining_s is None or before_s + cost_s <= remaining_s:
                return Promise(self, quality, reckoned_s, cost_s, before_s)
        late_s = before_s + cost_s - (remaining_s or 0.0)
        self._refusals.inc()
        raise Overloaded(
            f"{before_s:.1f} s of rendering are promised already and {duration_s:.1f} s of speech at the lowest"
            f" quality that may be used, {tiers[-1]!r}, cost {cost_s:.1f} s more, but the caller's deadline is in"
            f" {remaining_s:.1f} s; allow {late_s:.1f} s more, or ask another replica",
            retry_after_s=late_s if late_s <= before_s else None,
            allow_more_s=late_s,
        )

    def _sum(self) -> float:
        return sum((promise.left_s for promise in self._promises), 0.0)


class Promise:
    """A call that was accepted; ends with the `with` block.

    Attributes:
        quality: The tier that is used.
        cost_s: Seconds that rendering it takes.
        before_s: Seconds that were promised to others before.
        left_s: Seconds of it that are not rendered yet.
    """

    def __init__(self, backlog: Backlog, quality: str, reckoned_s: float, cost_s: float, before_s: float) -> None:
        self._backlog = backlog
        self._reckoned_s = reckoned_s
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

    def kept(self, took_s: float) -> None:
        """Notes that it was rendered and encoded, and what that took."""
        self._backlog.learn(self._reckoned_s, took_s)
