"""Outcome of a day of turns."""

from dataclasses import dataclass, field

LATE_S = 120.0
"""A first video is late that comes later after the end of the request: an idle renderer needs 60 to 90 s at best."""


@dataclass
class Tally:
    """Counts of one run.

    Attributes:
        turns: That began.
        lost: That failed, or had no sound.
        bare: Without video, or without the end of it: no renderer could end in time.
        late: First videos that came later than `LATE_S`, those that never came included.
        first_s: Time to the first video of each turn that had one.
        refusals: Of calls, by replicas; a segment is offered to several.
        tiers: Segments by their tier.
        gpu_s: Seconds that pods held a GPU, from their start to the end of their last call.
        busy_s: Of these, seconds of rendering.
        lag_s: How much later than due the process came to a sync at worst: a machine that is too slow for `speed`.
        replicas: Time, how many there shall be and how many are ready, at each sync.
    """

    turns: int = 0
    lost: int = 0
    bare: int = 0
    late: int = 0
    first_s: list[float] = field(default_factory=list)
    refusals: int = 0
    tiers: dict[str, int] = field(default_factory=dict)
    gpu_s: float = 0.0
    busy_s: float = 0.0
    lag_s: float = 0.0
    replicas: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def peak(self) -> int:
        """The most replicas at once."""
        return max((wanted for _, wanted, _ in self.replicas), default=0)
