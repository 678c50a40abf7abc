"""SmolLM2-135M-Instruct on llama.cpp: votes by label likelihood, and writes the reply.

The model (Allal et al. 2025, "SmolLM2") is small enough for one CPU thread, and weak. So it votes with one small LoRA
(Hu et al. 2021) on top and writes with another, both trained on this project's own sentences only; it writes under a
gate.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

import emotions
from perception.text import SentenceReader
from services.common.errors import InvalidRequest
from services.common.weights import digest_of
from services.mllm.domain import (
    Card,
    Level,
    Message,
    Modality,
    Prediction,
    Profile,
    ReplyRecord,
    ReplyRequest,
    ReplySentence,
)
from services.mllm.language.model import LanguageModel
from services.mllm.language.vote import LabelVote, VotePrompt
from services.mllm.reply.exemplars import Exemplars
from services.mllm.reply.gate import Gate
from services.mllm.reply.legible import found, unreadable
from services.mllm.reply.prompt import ReplyPrompt
from services.mllm.reply.writer import Drawing, ReplyWriter

REPLY_ADAPTER = Path(__file__).with_name("smollm2_reply.gguf")
VOTE_ADAPTER = Path(__file__).with_name("smollm2_vote.gguf")
WEIGHTS = Path("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
"""In the model folder."""


class Settings(BaseSettings):
    """Settings of the language model."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MLLM_", frozen=True, hide_input_in_errors=True)

    models_dir: Path = Path(".models")
    """The model folder."""
    vote_prompt: str = "vote-2"
    """Name of the prompt file that the vote is read with."""
    vote_adapter: Path = VOTE_ADAPTER
    """LoRA in GGUF that votes are read with, trained by `services.mllm.training.vote_adapter`."""
    reply_prompt: str = "reply-1"
    """Name of the prompt file that replies are written from."""
    reply_adapter: Path = REPLY_ADAPTER
    """LoRA in GGUF that replies are written with, trained by `services.mllm.training.reply_adapter`."""
    candidates: int = Field(default=5, ge=1, le=8)
    """How many first sentences are written side by side; two less for the second sentence."""
    sentence_tokens_max: int = Field(default=24, ge=8, le=60)
    """Longest sentence."""
    temperature: float = Field(default=0.5, ge=0, le=1.5)
    """How freely candidates are drawn."""
    top_p: float = Field(default=0.9, gt=0, le=1)
    """The likeliest words that together reach this probability may come."""


class Smollm2Backend:
    """Votes on the text of a message over the wheel's labels, and writes the reply."""

    def __init__(self, settings: Settings) -> None:
        wheel = emotions.load()
        weights = settings.models_dir / WEIGHTS
        vote_prompt, reply_prompt = VotePrompt.load(settings.vote_prompt), ReplyPrompt.load(settings.reply_prompt)
        # Two runtimes over the same mapped file, each with its adapter.
        self._voter = LanguageModel(weights, context_tokens=1024, candidates_max=1, adapter=settings.vote_adapter)
        self._author = LanguageModel(
            weights, context_tokens=3072, candidates_max=settings.candidates, adapter=settings.reply_adapter
        )
        self._vote = LabelVote(self._voter, vote_prompt, tuple(wheel.labels))
        reader = SentenceReader(settings.models_dir)
        exemplars = Exemplars()
        first = Drawing(settings.candidates, settings.sentence_tokens_max, settings.temperature, settings.top_p)
        then = Drawing(
            max(1, settings.candidates - 2), settings.sentence_tokens_max, settings.temperature, settings.top_p
        )
        gate = Gate(exemplars.replies())
        self._writer = ReplyWriter(self._author, reply_prompt, wheel, reader, exemplars, gate, first, then)
        self.card = Card(
            model="SmolLM2-135M-Instruct",
            digest=digest_of(weights, settings.vote_adapter, settings.reply_adapter),
            perceives=frozenset({Modality.TEXT}),
            level=Level.LABEL,
            prompt_version=f"{vote_prompt.version}+{reply_prompt.version}",
            writes=("en",),
        )

    def predict(self, message: Message) -> Prediction:
        """Votes with the likelihood of each label after the text, alone. Abstains without a text that it can read."""
        if not message.text.strip():
            return Prediction(Level.LABEL, {}, frozenset(), "scored", abstained="the message has no text")
        reason = unreadable(message.text)
        if reason:
            return Prediction(Level.LABEL, {}, frozenset(), "scored", abstained=reason)
        distribution = self._vote.distribution(message.text)
        return Prediction(
            Level.LABEL,
            distribution,
            frozenset({Modality.TEXT}),
            "scored",
            history_dropped=len(message.history),
        )

    def write(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        """Writes the reply; see `ReplyWriter.write`.

        Raises:
            InvalidRequest: As there, or the text is in another script than Latin or has no word.
        """
        text = request.message.text
        if text.strip() and unreadable(text):
            raise InvalidRequest("text", f"{found(text)}; this model writes English only, send English")
        return self._writer.write(request)

    def close(self) -> None:
        """Frees both runtimes."""
        self._voter.close()
        self._author.close()


def create() -> Smollm2Backend:
    """Loads the model and warms both operations up."""
    backend = Smollm2Backend(Settings())
    # The vote is warm: its calibration has asked the model already.
    profile = Profile(name="Anna", age="young", gender="female", timbre="mid")
    list(backend.write(ReplyRequest(Message(text="I am home."), "content", "content", profile)))
    return backend
