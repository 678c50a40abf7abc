"""Settings of the tts service."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.common.settings import ServiceSettings


class TtsSettings(ServiceSettings):
    """Which voice this process is. The model's own settings stand with its back-end."""

    model_config = SettingsConfigDict(env_prefix="E3RG_TTS_", frozen=True)

    backend: str = "hibari"
    """Name of a module of `services.tts.backends`."""
    voices_max: int = Field(default=64, ge=1)
    """Fitted voices that are kept in memory."""
