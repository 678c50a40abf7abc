"""Settings of the mllm service."""

from pydantic_settings import SettingsConfigDict

from services.common.settings import ServiceSettings


class MllmSettings(ServiceSettings):
    """Which model this process is. The model's own settings stand with its back-end."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MLLM_", frozen=True)

    backend: str = "smollm2"
    """Name of a module of `services.mllm.backends`."""
