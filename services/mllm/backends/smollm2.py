"""SmolLM2-135M-Instruct on llama.cpp: votes by label likelihood; replies are stored ones.

The model (Allal et al. 2025, "SmolLM2") is small enough for one CPU thread, and weak. So it votes with a small LoRA (Hu
et al. 2021) on top, trained on this project's own sentences only, and writes nothing.
"""

from collections.abc import Iterator
from pathlib import Path

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
from services.mllm.reply.legible import found, unreadable
from services.mllm.reply.writer import ReplyWriter

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


class Smollm2Backend:
    """Votes on the text of a message over the wheel's labels, and says stored replies."""

    def __init__(self, settings: Settings) -> None:
        wheel = emotions.load()
        weights = settings.models_dir / WEIGHTS
        prompt = VotePrompt.load(settings.vote_prompt)
        self._model = LanguageModel(weights, context_tokens=1024, adapter=settings.vote_adapter)
        self._vote = LabelVote(self._model, prompt, tuple(wheel.labels))
        self._writer = ReplyWriter(wheel, SentenceReader(settings.models_dir), Exemplars())
        self.card = Card(
            model="SmolLM2-135M-Instruct",
            digest=digest_of(weights, settings.vote_adapter),
            perceives=frozenset({Modality.TEXT}),
            level=Level.LABEL,
            prompt_version=prompt.version,
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
        """Says the reply; see `ReplyWriter.write`.

        Raises:
            InvalidRequest: As there, or the text is in another script than Latin or has no word.
        """
        text = request.message.text
        if text.strip() and unreadable(text):
            raise InvalidRequest("text", f"{found(text)}; this model writes English only, send English")
        return self._writer.write(request)

    def close(self) -> None:
        """Frees the model."""
        self._model.close()


def create() -> Smollm2Backend:
    """Loads the model and warms both operations up."""
    backend = Smollm2Backend(Settings())
    # The vote is warm: its calibration has asked the model already.
    profile = Profile(name="Anna", age="young", gender="female", timbre="mid")
    list(backend.write(ReplyRequest(Message(text="I am home."), "content", "content", profile)))
    return backend
