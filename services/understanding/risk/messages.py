"""Risks as they travel."""

from collections.abc import Iterable

from e3rg.common.v1 import common_pb2 as common
from services.common.errors import InvalidRequest
from services.understanding.risk.domain import Earlier, Heeded, Kind, Risk, Severity, Source


def to_message(risk: Risk) -> common.Risk:
    """Return a risk as a message."""
    return common.Risk(
        kind=f"RISK_KIND_{risk.kind.name}",
        severity=f"RISK_SEVERITY_{risk.severity.name}",
        confidence=risk.confidence,
        source=f"RISK_SOURCE_{risk.source.name}",
    )


def to_earlier(risks: Iterable[common.EarlierRisk]) -> list[Earlier]:
    """Read the risks of a conversation.

    Raises:
        InvalidRequest: One has no kind, no severity, or a negative age.
    """
    found = []
    for number, risk in enumerate(risks):
        where = f"context.risks[{number}]"
        if risk.age_s < 0:
            raise InvalidRequest(f"{where}.age_s", f"{risk.age_s:g}; send the seconds since it was raised")
        found.append(
            Earlier(_kind(f"{where}.kind", risk.kind), _severity(f"{where}.severity", risk.severity), risk.age_s)
        )
    return found


def to_heeded(risk: common.Risk, is_new: bool) -> Heeded:
    """Read the risk that a reply has to heed.

    Raises:
        InvalidRequest: It has no kind or no severity.
    """
    names = {common.RiskSource.Value(f"RISK_SOURCE_{source.name}"): source for source in Source}
    source = names.get(risk.source, Source.CLASSIFIER)
    kind, severity = _kind("risk.kind", risk.kind), _severity("risk.severity", risk.severity)
    return Heeded(Risk(kind, severity, risk.confidence, source), is_new)


def _kind(field: str, value: common.RiskKind) -> Kind:
    names = {common.RiskKind.Value(f"RISK_KIND_{kind.name}"): kind for kind in Kind}
    if value not in names:
        raise InvalidRequest(field, f"{value}; use one of: {', '.join(f'RISK_KIND_{kind.name}' for kind in Kind)}")
    return names[value]


def _severity(field: str, value: common.RiskSeverity) -> Severity:
    names = {common.RiskSeverity.Value(f"RISK_SEVERITY_{each.name}"): each for each in Severity}
    if value not in names:
        known = ", ".join(f"RISK_SEVERITY_{each.name}" for each in Severity)
        raise InvalidRequest(field, f"{value}; use one of: {known}")
    return names[value]
