"""Messages of the variants' contract, from and to the table."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from e3rg.orchestrator.v1 import variants_pb2 as pb
from orchestrator.variants import edits, experiments, ramps
from orchestrator.variants.edits import Edit
from services.common.errors import InvalidRequest
from services.common.variants.overlay import RolledBack
from services.common.variants.table import Change, Guardrail, Stage, Table

_EDITS: dict[str, Callable[..., Table]] = {
    "put": edits.put,
    "remove": edits.remove,
    "set": edits.set_weights,
    "state": edits.set_state,
    "promote": edits.promote,
    "rollback": edits.rollback,
    "shadow": edits.set_shadow,
}
"""Changes whose fields are the arguments."""
_LIMITS = tuple(Guardrail.model_fields)


@dataclass(frozen=True)
class Behind:
    """Replicas behind a variant.

    Attributes:
        replicas: How many its address lists; 0 where the gateway does not call it itself.
        ready: How many take calls.
        models: Their models, each "<back-end> <begin of the digest>".
    """

    replicas: int = 0
    ready: int = 0
    models: tuple[str, ...] = ()


def edit(request: pb.ChangeVariantsRequest, at_s: float) -> Edit:
    """Return the change of the table that a request asks for."""
    kind = request.WhichOneof("change")
    if kind == "ramp":
        return _ramp(request.ramp, at_s)
    if kind == "guardrail":
        limits = {name: getattr(request.guardrail, name) for name in _LIMITS if request.guardrail.HasField(name)}
        return partial(
            edits.set_guardrail, stage=request.guardrail.stage, limits=limits if request.guardrail.on else None
        )
    if kind == "start":
        return _start(request.start, at_s)
    if kind not in _EDITS:
        raise InvalidRequest("change", "missing, or no change of the table; name one")
    wanted = getattr(request, kind)
    return partial(_EDITS[kind], **{field.name: getattr(wanted, field.name) for field in wanted.DESCRIPTOR.fields})


def _start(asked: pb.StartExperiment, at_s: float) -> Edit:
    return partial(
        experiments.start,
        id=asked.id,
        stage=asked.stage,
        hypothesis=asked.hypothesis,
        primary=asked.primary,
        users_min=asked.users_min if asked.HasField("users_min") else experiments.USERS_MIN,
        # Its users are not those who stood together in an experiment before.
        salt=secrets.token_hex(16),
        at_s=at_s,
    )


def _ramp(ramp: pb.StartRamp, at_s: float) -> Edit:
    if not ramp.weights:
        return partial(ramps.stop, stage=ramp.stage)
    return partial(
        ramps.start,
        stage=ramp.stage,
        variant=ramp.variant,
        weights=tuple(ramp.weights),
        every_s=ramp.every_s,
        at_s=at_s,
        turns_min=ramp.turns_min if ramp.HasField("turns_min") else ramps.TURNS_MIN,
    )


def stage(name: str, found: Stage, behind: Callable[[str, str], Behind]) -> pb.VariantStage:
    """Return a stage with the replicas behind its variants."""
    variants = []
    for variant, each in found.variants.items():
        seen = behind(name, variant)
        variants.append(
            pb.Variant(
                name=variant,
                **each.model_dump(mode="json"),
                replicas=seen.replicas,
                replicas_ready=seen.ready,
                models=seen.models,
            )
        )
    return pb.VariantStage(name=name, control=found.control, variants=variants)


def change(made: Change) -> pb.VariantChange:
    """Return a change of the history."""
    return pb.VariantChange(**made.model_dump(exclude={"stages"}))


def guardrail(name: str, limits: Guardrail) -> pb.SetGuardrail:
    """Return the limits of a stage, as a change that sets them."""
    return pb.SetGuardrail(stage=name, on=True, **limits.model_dump())


def rollback(over: RolledBack) -> pb.GuardrailRollback:
    """Return a rollback that lies over the chart's values."""
    return pb.GuardrailRollback(stage=over.stage, variant=over.variant, reason=over.reason, at_s=over.at_s)
