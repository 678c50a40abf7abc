"""Variants of a user, and turns that belong to the experiment that runs."""

import pytest

from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from orchestrator.routing import Routing
from services.common.channels import BalancedChannel
from services.common.variants.channels import VariantChannels
from services.common.variants.choosing import Chosen, Reason
from services.common.variants.table import Experiment, Stage, Table, Variant

TRIAL = Experiment(
    id="voices", stage="tts", hypothesis="", primary="rating", users_min=20, salt="salt-of-it", started_at_s=1.0
)
STAGE = Stage(variants={"default": Variant(weight=50), "b": Variant(weight=50)})


def opened(address: str, name: str) -> BalancedChannel:
    raise AssertionError("nobody is called")


def routing(trial: Experiment | None = TRIAL, assigned: str = "", override: str = "", stage: str = "tts") -> Routing:
    """The choices of a turn of a user who was assigned, or names, a variant."""
    found = Routing(
        Table(version=1, stages={"tts": STAGE, "mllm-text": STAGE}, experiment=trial),
        VariantChannels({}, opened),
        pb.RespondHeader(tenant="acme", person="bob"),
        {stage: override} if override else {},
    )
    found.recalled(memory.RecallResponse(assigned={"tts": assigned} if assigned else {}))
    return found


def is_in_trial(found: Routing, reason: Reason, variant: str = "b") -> bool:
    return found.trial({"tts": Chosen("tts", variant, reason)}, {"tts": variant}) is not None


@pytest.mark.parametrize(
    ("reason", "assigned", "is_in"),
    [
        (Reason.WEIGHT, "", True),
        (Reason.PINNED, "", False),
        (Reason.FALLBACK, "", False),
        (Reason.ASSIGNED, "b", True),
        (Reason.PINNED, "b", True),
        # It is told that such a user saw both.
        (Reason.PINNED, "default", True),
        (Reason.FALLBACK, "default", True),
    ],
)
def test_a_user_is_exposed_first_by_what_was_drawn_by_lot(reason: Reason, assigned: str, is_in: bool) -> None:
    assert is_in_trial(routing(assigned=assigned), reason) == is_in


def test_a_user_gets_one_variant_in_all_conversations_without_an_experiment_too() -> None:
    table = Table(version=1, stages={"tts": STAGE})
    met = []
    for person in map(str, range(40)):
        headers = [pb.RespondHeader(tenant="acme", person=person, conversation=each) for each in ("one", "two", "")]
        turns = [Routing(table, VariantChannels({}, opened), header) for header in headers]
        met.append({turn.choose("tts").variant for turn in turns})
    assert [len(each) for each in met] == 40 * [1]
    assert set.union(*met) == {"default", "b"}


def test_a_testers_choice_of_the_stage_is_in_no_experiment_and_one_of_another_stage_is() -> None:
    assert not is_in_trial(routing(assigned="b", override="b"), Reason.OVERRIDE)
    assert is_in_trial(routing(override="b", stage="video"), Reason.WEIGHT)


def test_without_an_experiment_or_without_its_stage_there_is_none() -> None:
    assert not is_in_trial(routing(trial=None), Reason.WEIGHT)
    assert routing().trial({}, {"video": "default"}) is None


def test_a_voter_is_always_drawn_by_lot() -> None:
    trial = TRIAL.model_copy(update={"stage": "mllm-text"})
    assert routing(trial).trial({}, {"mllm-text": "b"}) == trial


def test_the_panel_is_told_which_variant_of_a_voter_the_caller_names() -> None:
    drawn, named = routing().voters(), routing(override="b", stage="mllm-text").voters()
    assert [each.named for each in drawn] == [False]
    assert [(each.voter, each.variant, each.named) for each in named] == [("text", "b", True)]
