"""Drawing tokens, on a model that is a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from services.mllm.chat.model import Sampling
from services.mllm.decoding.prefix import Prefix, draw, pieces
from tests.stops import never

STOPS = frozenset({0})


@dataclass
class Table:
    """A model whose next token depends on the last one only: `after` gives the logits."""

    after: torch.Tensor
    steps: list[int] = field(default_factory=list)

    def prefix(self, first: int) -> Prefix:
        return Prefix(self.after[first], None, 5, self._step)

    def _step(self, tokens: torch.Tensor, cache: Any, read: int) -> torch.Tensor:
        self.steps.append(read)
        return self.after[tokens]


def table(*rows: Sequence[float]) -> Table:
    return Table(torch.tensor(rows).log())


def greedy(tokens_max: int = 9) -> Sampling:
    return Sampling(tokens_max, 0.0, 1.0, 0)


def test_the_likeliest_token_comes_until_one_that_stops() -> None:
    model = table([0.1, 0.8, 0.1], [0.1, 0.2, 0.7], [0.9, 0.05, 0.05])
    assert list(draw(model.prefix(0), greedy(), STOPS, never)) == [1, 2]
    assert model.steps == [5, 6]


def test_no_more_tokens_come_than_are_allowed_and_none_is_computed_in_vain() -> None:
    model = table([0.1, 0.9], [0.1, 0.9])
    assert list(draw(model.prefix(0), greedy(3), STOPS, never)) == [1, 1, 1]
    assert len(model.steps) == 2


def test_nothing_is_computed_once_nobody_waits() -> None:
    model = table([0.1, 0.9], [0.1, 0.9])
    come: list[int] = []
    for token in draw(model.prefix(0), greedy(), STOPS, lambda: len(come) == 2):
        come.append(token)  # noqa: PERF402  # looked at meanwhile
    assert (come, len(model.steps)) == ([1, 1], 1)


def test_closing_stops_the_model() -> None:
    model = table([0.1, 0.9], [0.1, 0.9])
    tokens = draw(model.prefix(0), greedy(), STOPS, never)
    assert next(tokens) == 1
    tokens.close()  # type: ignore[attr-defined]
    assert model.steps == []


def test_only_the_likeliest_that_reach_top_p_are_drawn() -> None:
    model = table([0.0, 0.6, 0.3, 0.1], *[[0.0, 0.6, 0.3, 0.1]] * 3)
    sampling = Sampling(400, 1.0, 0.8, 3)
    drawn = list(draw(model.prefix(0), sampling, STOPS, never))
    assert set(drawn) == {1, 2}
    assert 0.6 < drawn.count(1) / len(drawn) < 0.73  # 0.6 of 0.9


def test_a_low_temperature_draws_the_likeliest_more_often() -> None:
    model = table([0.0, 0.6, 0.4], *[[0.0, 0.6, 0.4]] * 2)
    cold = list(draw(model.prefix(0), Sampling(300, 0.2, 1.0, 3), STOPS, never))
    assert cold.count(1) / len(cold) > 0.85  # 0.6^5 against 0.4^5


def test_the_same_seed_draws_the_same_and_nothing_else_of_the_process_changes() -> None:
    model = table([0.0, 0.5, 0.5], *[[0.0, 0.5, 0.5]] * 2)
    state = torch.get_rng_state()
    first, again, other = (
        list(draw(model.prefix(0), Sampling(40, 1.0, 1.0, seed), STOPS, never)) for seed in (4, 4, 5)
    )
    assert first == again != other
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("text", ["Ça va très bien, merci!", "谢谢, 好的 🙂"])
def test_a_character_of_several_tokens_comes_when_it_is_whole(text: str) -> None:
    def tokens() -> Iterator[int]:
        yield from text.encode()

    come = list(pieces(tokens(), lambda read: bytes(read).decode(errors="replace")))
    assert come == list(text)
