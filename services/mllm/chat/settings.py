"""Settings that every chat model has; each back-end adds its own."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ChatSettings(BaseSettings):
    """How a chat model is asked, whatever family it is of."""

    model_config = SettingsConfigDict(
        env_prefix="E3RG_MLLM_", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    models_dir: Path = Path(".models")
    """The model folder; the reader of sentences that picks the examples lies in it."""
    emotion_prompt: str = "emotion-1"
    """Name of the prompt file that the emotion is asked with."""
    reply_prompt: str = "reply-chat-4"
    """Name of the prompt file that replies are written from."""
    shots: int = Field(default=3, ge=0, le=16)
    """Solved examples in the question for the emotion."""
    answer_tokens_max: int = Field(default=64, ge=1, le=4096)
    """Longest answer to that question, where the model answers in free text; one that thinks aloud needs more."""
    history_turns_max: int = Field(default=20, ge=0)
    """Earlier utterances that the model gets; the oldest are left out first."""
    history_chars_max: int = Field(default=6000, ge=0)
    """Characters of earlier utterances that the model gets; the oldest are left out first."""
    reply_tokens_max: int = Field(default=120, ge=8, le=1024)
    """Longest reply; a model that thinks aloud needs more."""
    reply_sentences_max: int = Field(default=3, ge=1, le=8)
    """Sentences of a reply that are said; the model is stopped after them."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    """How freely a reply is drawn. The emotion is always asked at 0."""
    top_p: float = Field(default=0.9, gt=0, le=1)
    """The likeliest words of a reply that together reach this probability may come."""
