"""Tells a person what was said, how it felt, and what was found of it."""

from collections.abc import Iterator, Mapping

from google.protobuf.message import DecodeError

from client.terminal import age, count, moment
from client.votes import vote_summary
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2 as orchestrator
from e3rg.understanding.v1 import understanding_pb2 as understanding

DEFAULT = "default"
"""Variant where traffic is not split."""
DIGEST_CHARS = 12
CLIPS = {pb.CLIP_KIND_SPEECH: "speech", pb.CLIP_KIND_VIDEO: "video"}


def turn_lines(turn: pb.Turn) -> Iterator[str]:
    """Yields a turn with how its emotion was decided and what was kept of its reply."""
    yield f"{moment(turn.said_at_s)}  turn {turn.id}"
    yield f"  {_felt(turn.user_emotion, turn.user_intensity):20} {turn.user_text!r}"
    yield f"  {'-> ' + turn.reply_emotion:20} {turn.reply_text!r}"
    if turn.vote_record:
        yield f"  vote   {_vote(turn.vote_record)}"
    for stage, model in sorted(turn.models.items()):
        variant = turn.variants.get(stage, DEFAULT)
        yield f"  by     {stage}{'' if variant == DEFAULT else f' ({variant})'}: {model}"
    for loss in turn.degraded:
        yield f"  lost   {loss}"
    if turn.timings_s:
        yield f"  took   {_took(turn.timings_s)}"
    for clip in turn.clips:
        yield f"  {CLIPS.get(clip.kind, 'clip'):6} {clip.size_bytes} bytes"


def recalled_line(hit: pb.Hit, now_s: float) -> str:
    """When a turn that was found was, how like it is, and what was said.

    Args:
        hit: The turn.
        now_s: Unix time.
    """
    turn = hit.turn
    if hit.turns_ago:
        when = f"{count(hit.turns_ago, 'turn')} ago"
    else:
        when = f"{age(now_s - turn.said_at_s)} in conversation {turn.conversation}"
    return f"{when}, similarity {hit.similarity:.2f}: {turn.user_text!r} ({turn.user_emotion})"


def served_line(served: orchestrator.Served) -> str:
    """Return which model serves a stage, and under which variant where that is not the only one."""
    card = served.card
    variant = "" if served.variant == DEFAULT else f" ({served.variant})"
    return f"{served.stage}{variant} by {card.model or card.backend} {card.digest[:DIGEST_CHARS]}"


def _felt(label: str, intensity: float) -> str:
    return f"{label} {intensity:.2f}" if intensity else label


def _took(timings_s: Mapping[str, float]) -> str:
    """The whole turn, when it came to its end, and its stages, the longest first."""
    stages = sorted(timings_s.items(), key=lambda timing: (timing[0] != "turn", -timing[1], timing[0]))
    return ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in stages)


def _vote(record: bytes) -> str:
    try:
        understood = understanding.UnderstandResponse.FromString(record)
    except DecodeError:
        return f"{len(record)} bytes that are no vote record"
    return vote_summary(understood.record)


def risk_line(risk: common.Risk) -> str:
    """Return how a risk is told to a person."""
    kind = common.RiskKind.Name(risk.kind).removeprefix("RISK_KIND_").lower().replace("_", " ")
    severity = common.RiskSeverity.Name(risk.severity).removeprefix("RISK_SEVERITY_").lower()
    source = common.RiskSource.Name(risk.source).removeprefix("RISK_SOURCE_").lower()
    return f"{kind}, {severity} (found by {source}, {risk.confidence:.0%})"
