"""The metrics that every service has. Label values are identifiers.

`stage` is a stage of a turn, or `upload` for a model's work outside of turns, or of shadows a stage of the table of
variants; `component` is a service's name; `model`
is the name of a back-end; `variant` tells configurations of one stage apart.
"""

import re
from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

from services.common import __version__, tracing

VARIANT = "default"
"""The variant of a stage whose traffic is not split."""
UPLOAD = "upload"
"""Value of `stage` for work that belongs to no turn."""

DIGEST_CHARS = 12
"""Characters of a digest that tell two apart."""

BUCKETS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75),
    *(1, 1.5, 2, 3, 4, 5, 7, 10, 15, 20, 30, 60, 120, 300, 600),
)
"""Up to the slowest renderer: ten minutes for one reply."""

_MODEL = ["stage", "model", "variant"]

CALL_SECONDS = Histogram(
    "e3rg_call_seconds", "Seconds from a call's start to its end.", ["component", "method", "status"], buckets=BUCKETS_S
)
QUEUE_SECONDS = Histogram("e3rg_queue_seconds", "Seconds that work waited for the model.", _MODEL, buckets=BUCKETS_S)
COMPUTE_SECONDS = Histogram(
    "e3rg_compute_seconds", "Seconds that the model worked.", [*_MODEL, "outcome"], buckets=BUCKETS_S
)
QUEUE_LENGTH = Gauge("e3rg_queue_length", "Pieces of work that wait for the model.", _MODEL)
IN_FLIGHT = Gauge("e3rg_in_flight", "Pieces of work that wait for the model or are with it.", _MODEL)
REFUSALS = Counter("e3rg_refusals_total", "Work that was refused.", [*_MODEL, "reason"])
SHADOW_SECONDS = Histogram(
    "e3rg_shadow_seconds", "Seconds of a shadow's work, which nobody waits for.", ["stage", "variant", "outcome"],
    buckets=BUCKETS_S,
)  # fmt: skip
SHADOW_FIRST_CHUNK_SECONDS = Histogram(
    "e3rg_shadow_first_chunk_seconds", "Seconds from a shadow's first input to its first result.", ["stage", "variant"],
    buckets=BUCKETS_S,
)  # fmt: skip
SHADOW_SKIPPED = Counter("e3rg_shadow_skipped_total", "Shadows for which there was no room.", ["stage", "variant"])
BACKLOG_SECONDS = Gauge(
    "e3rg_backlog_seconds", "Seconds of promised work that are not done.", ["component", "model", "variant"]
)
REPLICAS = Gauge("e3rg_replicas", "Replicas of a component that this one calls.", ["component", "state"])
MODEL_INFO = Gauge(
    "e3rg_model_info", "The model that is served.", ["component", "model", "variant", "name", "digest", "ontology"]
)
BUILD_INFO = Gauge("e3rg_build_info", "The version that runs.", ["component", "version"])


def observe(histogram: Histogram, value: float) -> None:
    """Observe a value, with the trace of the call being served as its exemplar where it is recorded."""
    trace_id = tracing.recorded_trace_id()
    histogram.observe(value, {"trace_id": trace_id} if trace_id else None)


def show_build(component: str) -> None:
    """Tell which version of a component this process runs."""
    BUILD_INFO.labels(component, __version__).set(1)


def show_model(
    component: str,
    model: str,
    name: str,
    digest: str,
    ontology: str,
    backlog_s: Callable[[], float],
    variant: str = VARIANT,
) -> None:
    """Tell which model this process serves, and its backlog whenever the metrics are read.

    Args:
        component: Name of the service.
        model: Name of the back-end.
        name: Name of the model behind it.
        digest: SHA-256 (hex) of its weights.
        ontology: Digest of the emotions' table.
        backlog_s: Tells the seconds of promised work that are not done.
        variant: Name of the variant that this process belongs to.
    """
    identifier = re.sub(r"[^\w.+:/-]+", "-", name)
    MODEL_INFO.labels(component, model, variant, identifier, digest[:DIGEST_CHARS], ontology[:DIGEST_CHARS]).set(1)
    BACKLOG_SECONDS.labels(component, model, variant).set_function(backlog_s)
