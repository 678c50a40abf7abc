"""Experiments: starting one, and ending it with its outcome."""

from functools import partial

from pydantic import ValidationError

from orchestrator.comparison.summaries import MINIMUM_USERS
from orchestrator.variants.edits import weights_of
from services.common.errors import InvalidRequest, NotFound
from services.common.variants.table import ENDED_MAX, Experiment, Table, problems

USERS_MIN = MINIMUM_USERS
RESULT_CHARS_MAX = 500


def start(
    table: Table, id: str, stage: str, hypothesis: str, primary: str, users_min: int, salt: str, at_s: float
) -> Table:
    """Start an experiment of a stage.

    Raises:
        InvalidRequest: It is wrong, another one runs, or one had this id before.
    """
    if table.experiment:
        other = f"experiment {table.experiment.id} of {table.experiment.stage} runs"
        raise InvalidRequest("start", f"{other}; stop it first, for one runs at a time")
    if id in {each.id for each in table.ended}:
        raise InvalidRequest("start.id", f"{id!r} was an experiment before, with users of its own; choose another id")
    found = table.stage(stage)
    if len(found.variants) == 1:
        raise InvalidRequest("start.stage", f"{stage} has one variant; put another beside it first")
    make = partial(Experiment, id=id, stage=stage, hypothesis=hypothesis, primary=primary, users_min=users_min)
    try:
        experiment = make(salt=salt, control=found.control, started_at_s=at_s, phases=(weights_of(found),))
    except ValidationError as error:
        raise InvalidRequest("start", problems(error)) from None
    return table.model_copy(update={"stages": {stage: found} | table.stages, "experiment": experiment})


def stop(table: Table, id: str, result: str, at_s: float) -> Table:
    """End the experiment that runs.

    Args:
        table: The table.
        id: Its id.
        result: Its outcome in words.
        at_s: Unix time.

    Raises:
        NotFound: It does not run.
    """
    if not table.experiment or table.experiment.id != id:
        raise NotFound(f"experiment {id!r} does not run; {_running(table)}")
    ended = table.experiment.model_copy(update={"ended_at_s": at_s, "result": result[:RESULT_CHARS_MAX]})
    return table.model_copy(update={"experiment": None, "ended": (*table.ended, ended)[-ENDED_MAX:]})


def found(table: Table, id: str) -> Experiment:
    """Return an experiment that runs or ran; the one that runs for an empty id.

    Raises:
        NotFound: There is none.
    """
    if table.experiment and id in ("", table.experiment.id):
        return table.experiment
    for each in table.ended:
        if each.id == id:
            return each
    known = ", ".join(each.id for each in reversed(table.ended))
    before = f"; name one that ran before: {known}" if known else "" if id else "; start one, or compare a stage"
    raise NotFound(f"{f'experiment {id!r} is unknown; ' if id else ''}{_running(table)}{before}")


def _running(table: Table) -> str:
    return f"{table.experiment.id} runs" if table.experiment else "no experiment runs"
