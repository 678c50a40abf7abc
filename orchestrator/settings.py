"""Settings of the orchestrator."""

from typing import Literal

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from services.common.addresses import Address
from services.common.variants.settings import VariantSettings


class OrchestratorSettings(VariantSettings):
    """Addresses of the stages, and times of a turn."""

    model_config = SettingsConfigDict(env_prefix="E3RG_ORCHESTRATOR_", frozen=True)

    understanding_address: Address = "127.0.0.1:50052"
    """Address of the understanding service; a name is resolved again and again, and all that it lists are called."""
    memory_address: Address = "127.0.0.1:50053"
    """Address of the memory service."""
    tts_address: Address = "127.0.0.1:50054"
    """Address of the tts service."""
    video_address: Address = "127.0.0.1:50055"
    """Address of the video service."""
    turn_deadline_s: float = Field(default=60, gt=0)
    """Time that a turn gets when its caller sets no deadline. A renderer of segments chooses its quality by it, and
    refuses what would end later."""
    turn_deadline_max_s: float = Field(default=120, gt=0)
    """Longest turn, whatever its caller allows. A stop takes as long at most: see `shutdown_grace_s`."""
    shutdown_grace_s: float = Field(default=120, ge=0)
    """Seconds that running turns get to finish after SIGTERM; below `turn_deadline_max_s`, the longest are cut off."""
    risk_webhook_url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """Where the operator is told of risks, as `POST` with JSON; empty tells nobody."""
    risk_webhook_secret: SecretStr = SecretStr("")
    """Secret that the notices are signed with: "whsec_" and base64 of at least 24 random bytes."""
    risk_webhook_words: bool = False
    """Whether the notices hold the user's words."""
    stage_idle_s: float = Field(default=20, gt=0)
    """A voice or a face that sends nothing for so long, not even progress, is dropped from the turn."""
    history_turns: int = Field(default=10, ge=0, le=32)
    """Past turns that are recalled for a new one."""
    variant_admin: bool = False
    """Whether callers may see and change the table of variants, and choose the variants of their turn."""
    variants_lease: str = Field(default="", pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$")
    """Lease of the gateway that judges guardrails and steps ramps, in the namespace of `variants_configmap`; empty for
    that one's name."""
    peers_address: Address | Literal[""] = ""
    """Name that lists all gateways, whose counts of turns guardrails and ramps sum up; empty for this one alone."""

    @model_validator(mode="after")
    def _deadline_fits(self) -> "OrchestratorSettings":
        if self.turn_deadline_s > self.turn_deadline_max_s:
            problem = f"turn_deadline_s is {self.turn_deadline_s:g}, above turn_deadline_max_s"
            raise ValueError(f"{problem} ({self.turn_deadline_max_s:g}); lower the first or raise the second")
        return self
