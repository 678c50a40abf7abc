"""Settings of the understanding service."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from services.common.addresses import Address
from services.common.variants.settings import VariantSettings
from services.understanding.risk.lines import check_table


class UnderstandingSettings(VariantSettings):
    """Who sits on the panel and under which terms it decides."""

    model_config = SettingsConfigDict(env_prefix="E3RG_UNDERSTANDING_", frozen=True)

    voters: dict[str, Address] = Field(default_factory=dict)
    """Address of each voter by name, as JSON, in order of priority: {"text": "host:port"}."""
    writer: str = ""
    """Name of the voter that writes the replies."""
    transcriber: str = ""
    """Name of the voter that transcribes speech."""
    quorum: int = Field(default=1, ge=1)
    """Votes that must count."""
    rule: Literal["majority", "weighted", "pooled"] = "majority"
    """How votes are counted."""
    weights: str = ""
    """What the voters weigh: name of a table in `services/understanding/weights`, or path of a TOML file. "weighted"
    needs it; under "pooled" all weigh the same without it; the majority knows none."""
    early: bool = True
    """Whether to decide, and call off who has not answered, once no missing vote can change the result."""
    reliability: bool = True
    """Whether to keep track records of the voters: one that agrees with the others no better than chance is not
    counted, one that is often late is not waited for."""
    history_turns_max: int = Field(default=40, ge=1)
    """Turns of the conversation before the message that the voters get; of a longer one the last."""
    vote_deadline_s: float = Field(default=4, gt=0)
    """Time that the voters get; a turn has other stages to go."""
    models_dir: Path = Path(".models")
    """The model folder, with the encoder of the risk screen."""
    help_lines: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Help lines by country, JSON: {"GB": {"emergency": "999", "line": "Samaritans on 116 123", "child": …}}; `line` is
    for all kinds of risk, a kind's own comes before it. Without one a reply names "your local emergency number"."""
    help_country: str = ""
    """Country of the table whose lines are named when a request names none, as a code of ISO 3166-1 ("DE")."""
    frames_max: int = Field(default=16, ge=1, le=64)
    """Frames of a video that the voters see, evenly spread over the clip."""

    @model_validator(mode="after")
    def _panel_can_sit(self) -> "UnderstandingSettings":
        for field, name in (("writer", self.writer), ("transcriber", self.transcriber)):
            if name not in self.voters:
                raise ValueError(f"{field} is {name!r}; it must be one of the voters {sorted(self.voters)}")
        if self.rule == "weighted" and not self.weights:
            raise ValueError("rule is 'weighted', but weights is empty; name a table of weights")
        if self.rule == "majority" and self.weights:
            raise ValueError(f"weights is {self.weights!r}, but the majority knows none; set rule to use them")
        check_table(self.help_lines, self.help_country)
        if self.quorum > len(self.voters):
            raise ValueError(f"quorum is {self.quorum}, but there are {len(self.voters)} voters")
        return self
