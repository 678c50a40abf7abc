"""Choice of a variant: uniform over keys, stable while weights change, and pinned."""

from collections import Counter

import pytest

from services.common.variants.choosing import Reason, UnknownVariant, choose, position, shadows
from services.common.variants.table import Experiment, Stage, State, Table, Variant


def table(**weights: float) -> Table:
    stage = Stage(variants={name: Variant(weight=weight) for name, weight in weights.items()})
    return Table(stages={"tts": stage})


@pytest.mark.parametrize("share", [1, 10, 50])
def test_a_share_of_the_keys_goes_to_a_variant(share: float) -> None:
    keys = 20_000
    split = Counter(choose(table(default=100 - share, b=share), "tts", f"user {key}").variant for key in range(keys))
    expected = {"default": keys * (100 - share) / 100, "b": keys * share / 100}
    chi_square = sum((split[name] - count) ** 2 / count for name, count in expected.items())
    assert chi_square < 6.63  # p > 0.01 with one degree of freedom


def test_a_larger_weight_moves_only_keys_of_the_control() -> None:
    small, large = table(default=80, b=10, c=10), table(default=50, b=10, c=40)
    for key in range(2000):
        before, after = (choose(each, "tts", str(key)).variant for each in (small, large))
        assert before == after or (before, after) == ("default", "c")


def test_stages_are_split_independently() -> None:
    stage = Stage(variants={"default": Variant(weight=50), "b": Variant(weight=50)})
    both = Table(stages={"tts": stage, "video": stage})
    pairs = Counter(
        (choose(both, "tts", str(key)).variant, choose(both, "video", str(key)).variant) for key in range(4000)
    )
    assert all(850 < count < 1150 for count in pairs.values())


def test_a_stage_that_the_table_lacks_has_one_variant() -> None:
    assert choose(Table(), "tts", "anybody").variant == "default"


@pytest.mark.parametrize(
    ("state", "variant", "reason"),
    [
        (State.SERVING, "b", Reason.PINNED),
        (State.DRAINING, "b", Reason.PINNED),
        (State.OFF, "default", Reason.WEIGHT),
    ],
)
def test_a_conversation_stays_with_its_variant_until_that_is_off(state: State, variant: str, reason: Reason) -> None:
    stage = Stage(variants={"default": Variant(weight=100), "b": Variant(state=state)})
    chosen = choose(Table(stages={"tts": stage}), "tts", "anybody", pinned="b")
    assert (chosen.variant, chosen.reason) == (variant, reason)


def test_a_pin_to_a_variant_that_is_gone_is_no_pin() -> None:
    assert choose(table(default=100), "tts", "anybody", pinned="gone").reason is Reason.WEIGHT


def test_the_caller_goes_before_the_conversation_before_the_experiment() -> None:
    split = table(default=80, b=10, c=10)
    assert choose(split, "tts", "k", pinned="b", override="c", assigned="default").variant == "c"
    assert choose(split, "tts", "k", pinned="b", assigned="default").variant == "b"
    assert choose(split, "tts", "k", assigned="c").reason is Reason.ASSIGNED


def test_an_unknown_variant_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownVariant, match="tts has no variant 'z'; use one of: b, default"):
        choose(table(default=90, b=10), "tts", "k", override="z")


def test_an_experiment_splits_its_stage_by_its_own_salt() -> None:
    split = table(default=50, b=50)
    trial = Experiment(
        id="e1", stage="tts", hypothesis="", primary="rating", users_min=20, salt="another salt", started_at_s=0.0
    )
    during = split.model_copy(update={"experiment": trial})
    moved = sum(
        choose(split, "tts", str(key)).variant != choose(during, "tts", str(key)).variant for key in range(1000)
    )
    assert 400 < moved < 600


def test_shadows_get_their_share_and_never_what_they_serve_themselves() -> None:
    stage = Stage(variants={"default": Variant(weight=100), "b": Variant(shadow=30)})
    shadowed = Table(stages={"video": stage})
    count = sum(shadows(shadowed, "video", str(key), "default") == ("b",) for key in range(4000))
    assert 1080 < count < 1320
    assert not any(shadows(shadowed, "video", str(key), "b") for key in range(100))


def test_the_position_of_a_key_is_the_same_everywhere() -> None:
    assert position("e3rg", "tts", "default anna") == pytest.approx(23.33455, abs=1e-4)
