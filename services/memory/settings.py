"""Settings of the memory service."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.common.settings import ServiceSettings
from services.memory.memory import CACHE_BYTES, CACHE_KEEP_S


class MemorySettings(ServiceSettings):
    """Which store this process keeps things in. The store's own settings stand with its back-end."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MEMORY_", frozen=True)

    backend: str = "filesystem"
    """Name of a module of `services.memory.backends`."""
    threads: int = Field(default=4, ge=1, le=64)
    """Calls to the store at the same time."""
    queue_waiting_max: int = Field(default=64, ge=0)
    """Requests that may wait for a thread; more are refused with RESOURCE_EXHAUSTED. Store calls take milliseconds."""
    cache_bytes: int = Field(default=CACHE_BYTES, ge=0)
    """So much memory the copies of objects may take, about; the vectors have a room of their own."""
    cache_keep_s: float = Field(default=CACHE_KEEP_S, gt=0, le=3600)
    """Nothing is held for longer after its last use; nor does anything older stand in for a store that is away."""
