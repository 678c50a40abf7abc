"""Tells a person what was erased, and how long things are kept."""

from collections.abc import Iterator

from client.terminal import count, moment
from e3rg.memory.v1 import erasure_pb2 as pb


def audit_lines(audit: pb.Audit) -> Iterator[str]:
    """Yields the record of an erasure, with a table of what was there."""
    yield f"erased     {audit.what}, asked for by {audit.asked_by}"
    yield f"{'':13} {'rows':>9} {'bytes':>13}"
    for part in audit.counts:
        yield f"{part.kind:13} {part.objects:9} {part.size_bytes:13}"
    rows, size_bytes = _sums(audit)
    yield f"{'all':13} {rows:9} {size_bytes:13}"
    yield f"begun      {moment(audit.begun_at_s)}"
    if audit.done_at_s:
        yield f"done       {moment(audit.done_at_s)}; no replica holds any of it after {moment(audit.caches_gone_by_s)}"
    else:
        yield "done       not yet: the memory ends it by itself; `e3rg memory audits` tells when"
    yield f"record     {audit.id}"


def audit_line(audit: pb.Audit) -> str:
    """The record of an erasure in one line."""
    rows, size_bytes = _sums(audit)
    state = "" if audit.done_at_s else ", under way"
    return (
        f"{moment(audit.begun_at_s)}  {audit.what}, asked for by {audit.asked_by}:"
        f" {count(rows, 'row')}, {size_bytes} bytes{state}  {audit.id}"
    )


def retention_lines(retention: pb.Retention) -> Iterator[str]:
    """Yields how long each kind of thing is kept."""
    for name, days, otherwise in (
        ("turns", retention.turns_days, "for ever"),
        ("clips", retention.clips_days, "as long as their turns"),
        ("derived", retention.derived_days, "as long as what they were derived from"),
        ("audits", retention.audits_days, "for ever"),
    ):
        yield f"{name:10} {count(days, 'day') if days else otherwise}"


def _sums(audit: pb.Audit) -> tuple[int, int]:
    return sum(part.objects for part in audit.counts), sum(part.size_bytes for part in audit.counts)
