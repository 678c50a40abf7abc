"""Record of one turn, filled while its events arrive."""

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.load.playback import Player, VideoTimes
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb

OUTCOMES = ("ok", "degraded", "refused", "failed", "late", "unfinished")
MEASURES = (
    "upload_s",
    "first_text_s",
    "first_sound_s",
    "first_video_s",
    "whole_s",
    "real_time_factor",
    "stalled_s",
)
PICTURES_MISSING_S = 0.1
"""A video may end so much before its sound: a picture more or less."""
SAMPLE_BYTES = 2


@dataclass
class Turn:
    """One turn. Times `*_at_s` count from the begin of the run, measures from `due_at_s`.

    Attributes:
        kind: Kind of its message.
        due_at_s: When it was to be sent.
        sent_at_s: When it was sent.
        ended_at_s: When it ended.
        outcome: One of `OUTCOMES`: refused is RESOURCE_EXHAUSTED, late is DEADLINE_EXCEEDED, and unfinished is a turn
            that runs, or ran when the load was cancelled.
        status: The gRPC status.
        problem: The gateway's message, or what is missing.
        lacks: What the reply lacks of the wanted output.
        degraded: Stage and loss of each `degraded` event.
        upload_s: Time at which the last byte of the message was handed over.
        real_time_factor: Seconds from the first chunk of video (of sound without video) to the last, per second of it.
        stalls: Number of stalls of a player that starts with the first chunk.
        retry_after_s: Pause that the gateway asked for.
        trace_id: Id of the turn in all logs.
        conversation: Its conversation; empty for none.
        kept_as: Its id in the conversation; empty if it was not kept.
        variants: Variant that served each stage, as the reply says.
    """

    kind: str
    due_at_s: float
    sent_at_s: float
    ended_at_s: float | None = None
    outcome: str = "unfinished"
    status: str = ""
    problem: str = ""
    lacks: list[str] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    upload_s: float | None = None
    first_text_s: float | None = None
    first_sound_s: float | None = None
    first_video_s: float | None = None
    whole_s: float | None = None
    real_time_factor: float | None = None
    stalled_s: float | None = None
    stalls: int = 0
    audio_s: float = 0.0
    video_s: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0
    retry_after_s: float = 0.0
    trace_id: str = ""
    conversation: str = ""
    kept_as: str = ""
    variants: dict[str, str] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """Tell whether it ended without a whole reply, for whatever reason."""
        return self.outcome in ("refused", "failed", "late") or bool(self.lacks)

    @property
    def late_s(self) -> float:
        """Seconds by which it was sent after it was due."""
        return self.sent_at_s - self.due_at_s


class Recorder:
    """Fills a turn with what its events tell.

    Args:
        turn: What is filled.
        output: How much of a reply is wanted.
        now_s: Returns the time since the begin of the run.
    """

    def __init__(self, turn: Turn, output: pb.Output, now_s: Callable[[], float]) -> None:
        self._turn = turn
        self._output = output
        self._now_s = now_s
        self._player = Player()
        self._times = VideoTimes()
        self._last_s = 0.0
        self._is_done = False

    def uploaded(self) -> None:
        """Note that the last byte of the message was handed over."""
        self._turn.upload_s = self._since_due_s()

    def take(self, event: pb.RespondResponse) -> None:
        """Note what an event tells.

        Raises:
            InvalidVideo: Its video is no fragmented MP4.
        """
        turn, at_s = self._turn, self._since_due_s()
        turn.bytes_received += event.ByteSize()
        match event.WhichOneof("event"):
            case "text":
                turn.first_text_s = at_s if turn.first_text_s is None else turn.first_text_s
            case "audio":
                turn.first_sound_s = at_s if turn.first_sound_s is None else turn.first_sound_s
                if self._output == pb.OUTPUT_AUDIO:
                    self._play(at_s, turn.audio_s)
                turn.audio_s += len(event.audio.samples) / SAMPLE_BYTES / event.audio.sample_rate_hz
            case "video":
                turn.first_video_s = at_s if turn.first_video_s is None else turn.first_video_s
                for media_s in self._times.add(event.video.content):
                    self._play(at_s, media_s)
                turn.video_s = self._times.end_s
                self._last_s = at_s
            case "degraded":
                turn.degraded.append(f"{event.degraded.stage}: {event.degraded.dropped}")
            case "served":
                turn.variants[event.served.stage] = event.served.variant
            case "done":
                self._is_done = True
                turn.kept_as = event.done.turn

    def end(self) -> None:
        """Note that the last event has come."""
        turn = self._turn
        self.stop("failed" if not self._is_done else "degraded" if turn.degraded else "ok", "OK")
        if not self._is_done:
            turn.problem = "it ended without done"
            return
        turn.whole_s = self._since_due_s()
        turn.lacks = self._lacks()
        if turn.lacks:
            turn.outcome, turn.problem = "degraded", f"without {', '.join(turn.lacks)}"
        first_s = turn.first_video_s if self._output == pb.OUTPUT_VIDEO else turn.first_sound_s
        media_s = turn.video_s if self._output == pb.OUTPUT_VIDEO else turn.audio_s
        if first_s is not None and media_s:
            turn.real_time_factor = (self._last_s - first_s) / media_s

    def stop(self, outcome: str, status: str, problem: str = "") -> None:
        """Note that it ended, maybe before the last event."""
        turn = self._turn
        turn.outcome, turn.status, turn.problem = outcome, status, problem
        turn.ended_at_s = self._now_s()

    def _play(self, at_s: float, media_s: float) -> None:
        self._player.arrive(at_s, media_s)
        self._turn.stalls, self._turn.stalled_s = self._player.stalls, self._player.stalled_s
        self._last_s = at_s

    def _lacks(self) -> list[str]:
        turn, lacks = self._turn, []
        if turn.first_text_s is None:
            lacks.append("words")
        if self._output >= pb.OUTPUT_AUDIO and not turn.audio_s:
            lacks.append("sound")
        if self._output >= pb.OUTPUT_VIDEO and not turn.video_s:
            lacks.append("video")
        elif self._output >= pb.OUTPUT_VIDEO and turn.video_s < turn.audio_s - PICTURES_MISSING_S:
            lacks.append(f"video after {turn.video_s:.2f} s of {turn.audio_s:.2f} s")
        return lacks

    def _since_due_s(self) -> float:
        return self._now_s() - self._turn.due_at_s
