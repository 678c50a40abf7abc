"""Settings of the orchestrator."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.common.settings import ServiceSettings


class OrchestratorSettings(ServiceSettings):
    """Where the stages are, and how long a turn may take."""

    model_config = SettingsConfigDict(env_prefix="E3RG_ORCHESTRATOR_", frozen=True)

    understanding_address: str = "127.0.0.1:50052"
    """Address of the understanding service; `dns:///name:port` balances over all replicas."""
    memory_address: str = "127.0.0.1:50053"
    """Address of the memory service."""
    tts_address: str = "127.0.0.1:50054"
    """Address of the tts service."""
    video_address: str = "127.0.0.1:50055"
    """Address of the video service."""
    turn_deadline_s: float = Field(default=60, gt=0)
    """Time that a turn gets when its caller allows more, or sets no deadline. A renderer of segments chooses its
    quality by it, and refuses what would end later."""
    stage_idle_s: float = Field(default=20, gt=0)
    """A voice or a face that sends nothing for so long, not even progress, is dropped from the turn."""
    history_turns: int = Field(default=10, ge=0, le=32)
    """Past turns that are recalled for a new one."""
