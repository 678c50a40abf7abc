"""The settings that every service has; each service adds its own in its `settings.py`."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServiceSettings(BaseSettings):
    """Where a service listens and how it stops."""

    model_config = SettingsConfigDict(frozen=True, hide_input_in_errors=True)

    host: str = "0.0.0.0"
    """Address to listen on."""
    port: int = Field(default=50051, ge=0, le=65535)
    """Port of the gRPC door; 0 takes a free one."""
    metrics_port: int = Field(default=9090, ge=0, le=65535)
    """Port of the Prometheus page; 0 switches it off."""
    shutdown_grace_s: float = Field(default=20, ge=0)
    """Seconds that running calls get to finish after SIGTERM."""
    queue_waiting_max: int = Field(default=8, ge=0)
    """Requests that may wait for the model; more are refused with RESOURCE_EXHAUSTED."""
    log_level: str = "INFO"
    """Least level that is logged."""
    models_dir: Path = Path(".models")
    """Folder of the weights."""
