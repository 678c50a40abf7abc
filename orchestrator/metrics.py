"""Metrics of turns."""

from prometheus_client import Counter, Gauge, Histogram

from services.common.metrics import BUCKETS_S

_MODEL = ["stage", "model", "variant"]

TURN_SECONDS = Histogram(
    "e3rg_turn_seconds", "Seconds from the end of a request to the end of its turn.", ["output", "outcome"],
    buckets=BUCKETS_S,
)  # fmt: skip
TURNS_IN_FLIGHT = Gauge("e3rg_turns_in_flight", "Turns in progress.")
FIRST_SOUND_SECONDS = Histogram(
    "e3rg_turn_first_sound_seconds", "Seconds from the end of a request to the first sound.", buckets=BUCKETS_S
)
FIRST_VIDEO_SECONDS = Histogram(
    "e3rg_turn_first_video_seconds", "Seconds from the end of a request to the first video.", buckets=BUCKETS_S
)
TURN_STAGE_SECONDS = Counter(
    "e3rg_turn_stage_seconds_total", "Seconds of turns by the one stage that each moment belongs to.", ["stage"]
)
STAGE_SECONDS = Histogram(
    "e3rg_stage_seconds", "Seconds of a stage of a turn.", [*_MODEL, "outcome"], buckets=BUCKETS_S
)
STAGE_FIRST_CHUNK_SECONDS = Histogram(
    "e3rg_stage_first_chunk_seconds", "Seconds from a stage's first input to its first result.", _MODEL,
    buckets=BUCKETS_S,
)  # fmt: skip
STAGE_REAL_TIME_FACTOR = Histogram(
    "e3rg_stage_real_time_factor",
    "Seconds from the first chunk to the last per second of media; a reply plays without a pause below 1.",
    _MODEL,
    buckets=(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2, 3, 5, 10, 30),
)
RISK_NOTICES = Counter("e3rg_risk_notices_total", "Tries to tell the operator's webhook of a risk.", ["outcome"])
for _outcome in ("sent", "failed", "given_up"):
    RISK_NOTICES.labels(_outcome)
DEGRADED = Counter("e3rg_degraded_total", "Losses of turns that went on.", ["stage", "dropped"])

OUTPUTS = ("text", "audio", "video")
OUTCOMES = ("ok", "degraded", "rejected", "refused", "failed", "cancelled")
for _output in OUTPUTS:
    for _outcome in OUTCOMES:
        TURN_SECONDS.labels(_output, _outcome)  # A rate needs the 0 before the first.
