"""Settings of the video service."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.common.settings import ServiceSettings


class VideoSettings(ServiceSettings):
    """Which face renderer this process is. The model's own settings stand with its back-end."""

    model_config = SettingsConfigDict(env_prefix="E3RG_VIDEO_", frozen=True)

    backend: str = "portrait"
    """Name of a module of `services.video.backends`."""
    rigs_max: int = Field(default=16, ge=1)
    """Rigged portraits that are kept in memory at once, some 15 MB each with the portrait renderer."""
