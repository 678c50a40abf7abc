"""The voters that are measured: the embedded panel's, and SmolLM2 asked in other ways."""

from collections.abc import Iterator
from contextlib import contextmanager

import emotions
from benchmarks.panel.votes import Predict
from local.deployment import VOTERS
from perception.text import SentenceReader
from services.common import backends
from services.mllm.backends.smollm2 import VOTE_ADAPTER, WEIGHTS, Settings
from services.mllm.chat.shots import Shots
from services.mllm.domain import Level, Message, Modality, Prediction
from services.mllm.language.model import LanguageModel
from services.mllm.language.vote import LabelVote, VotePrompt
from services.mllm.reply.exemplars import Exemplars

SHOTS = (0, 1, 3)
CONTEXT_TOKENS = 1024


class Asked:
    """SmolLM2, asked with examples.

    Args:
        vote: The model with its prompt.
        shots: Picks the examples for a message; None leaves those of the prompt, the same for every message.
    """

    def __init__(self, vote: LabelVote, shots: Shots | None) -> None:
        self._vote, self._shots = vote, shots

    def predict(self, message: Message) -> Prediction:
        """Votes on the text."""
        picked = self._shots.pick(message) if self._shots else ()
        shown = [(each.message, each.shot.label) for each in picked] if self._shots else None
        distribution = self._vote.distribution(message.text, shown)
        return Prediction(Level.LABEL, distribution, frozenset({Modality.TEXT}), "scored")


@contextmanager
def embedded() -> Iterator[dict[str, Predict]]:
    """Loads the voters of the embedded panel, in order of priority."""
    loaded = {name: backends.load("services.mllm.backends", module).create() for name, module in VOTERS.items()}
    try:
        yield {name: backend.predict for name, backend in loaded.items()}
    finally:
        for backend in loaded.values():
            backend.close()


@contextmanager
def asked_otherwise() -> Iterator[dict[str, Predict]]:
    """Loads SmolLM2 with and without its vote adapter, asked with 0, 1 and 3 examples like the message.

    Without the adapter also with the twelve examples that `vote-1` shows with every message.
    """
    models_dir = Settings().models_dir
    labels, weights = tuple(emotions.load().labels), models_dir / WEIGHTS
    bare_prompt, adapted_prompt = VotePrompt.load("vote-1"), VotePrompt.load("vote-2")
    # One model per prompt that stays the same: it is read only once then.
    fixed, bare = (LanguageModel(weights, CONTEXT_TOKENS) for _ in range(2))
    adapted = LanguageModel(weights, CONTEXT_TOKENS, VOTE_ADAPTER)
    exemplars, reader = Exemplars(), SentenceReader(models_dir)
    voters = {"bare, 12 fixed shots": Asked(LabelVote(fixed, bare_prompt, labels), None)}
    bare_vote, adapted_vote = LabelVote(bare, bare_prompt, labels), LabelVote(adapted, adapted_prompt, labels)
    for count in SHOTS:
        picker = Shots(exemplars, reader, count)
        voters[f"bare, {count}-shot"] = Asked(bare_vote, picker)
        voters[f"adapted, {count}-shot"] = Asked(adapted_vote, picker)
    try:
        yield {name: asked.predict for name, asked in voters.items()}
    finally:
        for model in (fixed, bare, adapted):
            model.close()
