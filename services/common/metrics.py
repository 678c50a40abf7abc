"""The metrics that every service has. Stages are the services' names; the model is the back-end's."""

from prometheus_client import Counter, Gauge, Histogram

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Up to the slowest renderer: ten minutes for one reply."""

CALL_SECONDS = Histogram(
    "e3rg_call_seconds", "Seconds from a call's start to its end.", ["stage", "method", "status"], buckets=BUCKETS_S
)
QUEUE_SECONDS = Histogram(
    "e3rg_queue_seconds", "Seconds that a request waited for the model.", ["stage", "model"], buckets=BUCKETS_S
)
QUEUE_LENGTH = Gauge("e3rg_queue_length", "Requests that wait for the model.", ["stage", "model"])
BACKLOG_SECONDS = Gauge("e3rg_backlog_seconds", "Seconds of work that are promised and not done.", ["stage", "model"])
COMPUTE_SECONDS = Histogram(
    "e3rg_compute_seconds",
    "Seconds that the model worked on a request.",
    ["stage", "model", "outcome"],
    buckets=BUCKETS_S,
)
STAGE_SECONDS = Histogram(
    "e3rg_stage_seconds", "Seconds of each stage of a turn.", ["stage", "outcome"], buckets=BUCKETS_S
)
DEGRADED = Counter("e3rg_degraded_total", "Turns that went on without something.", ["stage", "dropped"])
REPLICAS = Gauge("e3rg_replicas", "Replicas of a service that this one calls.", ["service", "state"])
