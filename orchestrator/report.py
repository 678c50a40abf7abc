"""Report of a turn while it runs: its events, the work of its stages, and its losses."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from orchestrator import metrics
from orchestrator.attribution import UNEXPLAINED, Interval, shares
from orchestrator.flow import Flow
from services.common import errors, tracing
from services.common.clock import now_s
from services.common.metrics import VARIANT, observe

OUTPUTS = dict(zip((pb.OUTPUT_TEXT, pb.OUTPUT_AUDIO, pb.OUTPUT_VIDEO), metrics.OUTPUTS, strict=True))
FIRST_SOUND = "first_sound"
"""Name of the wait for the first sound among the times of a turn."""
REJECTED = (errors.InvalidRequest, errors.NotFound, errors.FailedPrecondition)
"""Errors that the caller can mend."""


class Loss(Enum):
    """Something that a turn goes on without. Its name is for metrics, its value for users."""

    AUDIO = "audio"
    AUDIO_REST = "the rest of the audio"
    AUDIO_AND_VIDEO = "audio and video"
    AUDIO_REST_AND_VIDEO = "the rest of the audio and video"
    VIDEO = "video"
    VIDEO_REST = "the rest of the video"
    WISHED_QUALITY = "the wished quality"
    BEST_QUALITY = "the best quality"
    EVEN_MOTION = "an even motion"
    REPLY_REST = "the rest of the reply"
    OWN_WORDS = "the model's own words"
    RECENT_MEMORY = "what was remembered since"
    DAMAGED_TURNS = "damaged turns"
    EARLIER_TURNS = "earlier turns that are like the message"
    EXAMPLES = "examples of answers"
    RISK = "the memory of the risk"
    VOTE = "the vote"
    TURN = "the memory of this turn"
    SPEECH_RECORDING = "the recording of the speech"
    VIDEO_RECORDING = "the recording of the film"
    LAST_TIMINGS = "how long the last stages took"
    VARIANT = "the variant that was chosen"


@dataclass
class Timing:
    """Work of a stage.

    Attributes:
        start_s: When its first input was there; monotonic, as all times here.
        first_s: When its first result came; 0 before, or where it has a single one.
        media_s: Seconds of speech or video that it made.
        model: Name of the back-end.
        variant: Variant of the stage.
        outcome: `ok`, `failed` or `cancelled`.
        is_refused: Whether it failed for a full queue.
    """

    start_s: float
    first_s: float = 0.0
    media_s: float = 0.0
    model: str = ""
    variant: str = VARIANT
    outcome: str = "ok"
    is_refused: bool = False


class Report:
    """Report of one turn.

    Attributes:
        events: What the caller gets.
        received_s: When the request had come whole: the times in events count from here.
        took_s: Seconds that each stage took that has ended well, and in the end the wait for the first sound.
        outcomes: Work of the stages that have ended, by stage and in order.
        losses: Losses so far, as "stage: loss".
        outcome: Outcome of the turn, as in its metric; empty while it runs.
    """

    def __init__(self) -> None:
        self.events: Flow[pb.RespondResponse] = Flow()
        self.received_s = now_s()
        self.took_s: dict[str, float] = {}
        self.outcomes: list[tuple[str, Timing]] = []
        self.losses: list[str] = []
        self.outcome = ""
        self._work: list[Interval] = []

    def tell(self, event: pb.RespondResponse) -> None:
        """Hands an event on."""
        self.events.put(event)

    @contextmanager
    def stage(
        self,
        stage: str,
        model: str = "",
        fed: Flow[Any] | None = None,
        made: Flow[Any] | None = None,
        media_s: Callable[[], float] = lambda: 0.0,
    ) -> Iterator[Timing]:
        """Measure a stage, which works while the block runs.

        Args:
            stage: Its name.
            model: Name of its back-end.
            fed: Its input; it works from the first item on.
            made: Its output, whose first item is its first result.
            media_s: Tells the seconds of speech or video that it made.
        """
        timing = Timing(now_s(), model=model)
        try:
            yield timing
        except asyncio.CancelledError:
            timing.outcome = "cancelled"
            raise
        except BaseException as error:
            timing.outcome, timing.is_refused = "failed", isinstance(error, errors.Overloaded)
            raise
        finally:
            if fed:
                timing.start_s = fed.first_s or now_s()
            if made:
                timing.first_s = made.first_s
            timing.media_s = media_s()
            self.time(stage, timing)

    def time(self, stage: str, timing: Timing, end_s: float = 0.0) -> None:
        """Note the work of a stage that has ended; at `end_s`, or now."""
        end_s = end_s or now_s()
        start_s = min(timing.start_s, end_s)
        self._work.append(Interval(stage, start_s, end_s))
        labels = (stage, timing.model, timing.variant)
        self.outcomes.append((stage, timing))
        observe(metrics.STAGE_SECONDS.labels(*labels, timing.outcome), end_s - start_s)
        if timing.first_s:
            observe(metrics.STAGE_FIRST_CHUNK_SECONDS.labels(*labels), timing.first_s - start_s)
            if timing.media_s:
                factor = (end_s - timing.first_s) / timing.media_s
                observe(metrics.STAGE_REAL_TIME_FACTOR.labels(*labels), factor)
        tracing.add(
            stage, start_s, end_s, {"model": timing.model, "variant": timing.variant, "outcome": timing.outcome}
        )
        if timing.outcome == "ok":
            self._tell_time(stage, start_s, timing.first_s, end_s)

    @contextmanager
    def turn(self, output: pb.Output) -> Iterator[None]:
        """Measure the turn, which runs while the block does."""
        metrics.TURNS_IN_FLIGHT.inc()
        outcome = "failed"
        try:
            yield
            outcome = "degraded" if self.losses else "ok"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except errors.Overloaded:
            outcome = "refused"
            raise
        except REJECTED:
            outcome = "rejected"
            raise
        finally:
            self.outcome = outcome
            metrics.TURNS_IN_FLIGHT.dec()
            end_s = max(now_s(), self.received_s)
            observe(metrics.TURN_SECONDS.labels(OUTPUTS[output], outcome), end_s - self.received_s)
            for stage, seconds in self.shares(end_s).items():
                metrics.TURN_STAGE_SECONDS.labels(stage).inc(seconds)

    def shares(self, end_s: float) -> dict[str, float]:
        """Return the seconds of the turn up to `end_s` that belong to each stage."""
        return {UNEXPLAINED: 0.0} | shares(self._work, self.received_s, end_s)

    def end(self, first_sound_s: float, first_video_s: float) -> None:
        """Note that the reply is whole, and when its first sound and video came; 0 for never."""
        for histogram, first_s in (
            (metrics.FIRST_SOUND_SECONDS, first_sound_s),
            (metrics.FIRST_VIDEO_SECONDS, first_video_s),
        ):
            if first_s:
                observe(histogram, first_s - self.received_s)
        if first_sound_s:
            self.took_s[FIRST_SOUND] = first_sound_s - self.received_s
        self._tell_time("turn", self.received_s, 0.0, now_s())

    def degrade(self, stage: str, loss: Loss, reason: str) -> None:
        """Tells what the turn goes on without, and why."""
        self.losses.append(f"{stage}: {loss.value}")
        metrics.DEGRADED.labels(stage, loss.name.lower()).inc()
        self.tell(pb.RespondResponse(degraded=pb.Degraded(stage=stage, dropped=loss.value, reason=reason)))

    def _tell_time(self, stage: str, start_s: float, first_s: float, end_s: float) -> None:
        self.took_s[stage] = end_s - start_s
        timing = pb.StageTiming(
            stage=stage,
            start_s=start_s - self.received_s,
            first_s=(first_s or end_s) - self.received_s,
            end_s=end_s - self.received_s,
        )
        self.tell(pb.RespondResponse(timing=timing))


def loss_of(stage: str, has_begun: bool, output: pb.Output) -> Loss:
    """Return what is lost of an output with speech or video; the video has no sound without the speech."""
    if stage == "video":
        return Loss.VIDEO_REST if has_begun else Loss.VIDEO
    if output == pb.OUTPUT_VIDEO:
        return Loss.AUDIO_REST_AND_VIDEO if has_begun else Loss.AUDIO_AND_VIDEO
    return Loss.AUDIO_REST if has_begun else Loss.AUDIO
