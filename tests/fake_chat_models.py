"""Chat models that write, score or choose what they were told to.

Like every fake, each calls `before` with the name of the operation first (see `tests.fakes`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from services.mllm import domain as mllm
from services.mllm.chat import model as chat
from tests.fakes import Closing, go_on


class FakeChatModel:
    """`services.mllm.chat.model.ChatModel`: writes `answers`, one after the other and the last one for ever, word by
    word; what it was asked stands in `asked`. `before("stream")` is called first at every word."""

    name = "fake chat model"
    digest = "c" * 64

    def __init__(self, *answers: str, perceives: frozenset[mllm.Modality] = frozenset({mllm.Modality.TEXT})) -> None:
        self.perceives = perceives
        self.answers = list(answers)
        self.asked: list[tuple[chat.Turn, ...]] = []
        self.samplings: list[chat.Sampling] = []
        self.words: list[str] = []
        self.before: Callable[[str], None] = go_on
        self.stopped = Closing()

    def stream(self, turns: Sequence[chat.Turn], sampling: chat.Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        self.asked.append(tuple(turns))
        self.samplings.append(sampling)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        try:
            for word in re.findall(r"\s*\S+|\s+", answer):
                self.before("stream")
                if stopped():
                    return
                self.words.append(word)
                yield word
        finally:
            self.stopped.set()

    def close(self) -> None:
        self.before("close")


class FakeScorer(FakeChatModel):
    """`Scorer`: tells `likelihoods`, and `floor` for every answer that is not in them."""

    def __init__(self, likelihoods: Mapping[str, float], floor: float = -20.0) -> None:
        super().__init__("I am not asked to write.")
        self.likelihoods, self.floor = likelihoods, floor

    def log_likelihoods(
        self, turns: Sequence[chat.Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        self.before("score")
        self.asked.append(tuple(turns))
        return [self.likelihoods.get(answer, self.floor) for answer in answers]


class FakeChooser(FakeChatModel):
    """`Chooser`: makes `choice`."""

    def __init__(self, choice: chat.Choice) -> None:
        super().__init__("I am not asked to write.")
        self.choice = choice

    def choose(self, turns: Sequence[chat.Turn], choices: Sequence[str], stopped: Callable[[], bool]) -> chat.Choice:
        self.before("choose")
        self.asked.append(tuple(turns))
        return self.choice
