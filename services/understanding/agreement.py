"""Chance-corrected agreement of two voters, and shares of messages; both forget exponentially."""

import math

CONFIDENCE = 1.645
"""Standard errors on either side of an estimate: one-sided, 95 %."""


class Share:
    """Share of messages for which something holds.

    Args:
        half_life: Messages after which one weighs half.
    """

    def __init__(self, half_life: float) -> None:
        self._decay = 0.5 ** (1 / half_life)
        self._holds = 0.0
        self.weight = 0.0
        """Messages, each by what it still weighs."""

    def add(self, holds: bool) -> None:
        """Enter a message."""
        self._holds = self._holds * self._decay + holds
        self.weight = self.weight * self._decay + 1

    @property
    def value(self) -> float:
        """The share; 0 before the first message."""
        return self._holds / self.weight if self.weight else 0.0


class Kappa:
    """Cohen's kappa of two voters: 1 is full agreement, 0 that of chance, given how often each names each class.

    A voter that always names one class has kappa 0 with any other, whatever the base rates. Two voters that always name
    the same class have none, since chance alone explains their agreement.

    The standard error is that of the delta method (Fleiss, Cohen and Everitt 1969), with a continuity correction: one
    message, of those on which chance would have disagreed.

    Args:
        half_life: Messages after which one weighs half.
    """

    def __init__(self, half_life: float) -> None:
        self._decay = 0.5 ** (1 / half_life)
        self._cells: dict[tuple[str, str], float] = {}
        self._squares = 0.0
        self.value: float | None = None
        """The estimate; None while there is nothing to correct for chance."""
        self.low, self.high = -1.0, 1.0
        """Bounds of its confidence interval."""

    def add(self, first: str, second: str) -> None:
        """Enter the classes that both named for a message."""
        for cell in self._cells:
            self._cells[cell] *= self._decay
        self._cells[first, second] = self._cells.get((first, second), 0.0) + 1
        self._squares = self._squares * self._decay**2 + 1
        self._estimate()

    @property
    def messages(self) -> float:
        """Effective sample size: equally weighted messages that would be as sure."""
        return sum(self._cells.values()) ** 2 / self._squares if self._squares else 0.0

    def _estimate(self) -> None:
        total = sum(self._cells.values())
        shares = {cell: weight / total for cell, weight in self._cells.items()}
        firsts: dict[str, float] = {}
        seconds: dict[str, float] = {}
        for (first, second), share in shares.items():
            firsts[first] = firsts.get(first, 0.0) + share
            seconds[second] = seconds.get(second, 0.0) + share
        agreed = sum(share for (first, second), share in shares.items() if first == second)
        by_chance = sum(share * seconds.get(name, 0.0) for name, share in firsts.items())
        variety = 1 - by_chance
        if math.isclose(variety, 0, abs_tol=1e-9):
            self.value, self.low, self.high = None, -1.0, 1.0
            return
        self.value = 1 - (1 - agreed) / variety
        variance = 0.0
        for (first, second), share in shares.items():
            # By how much one more message of this cell moves the estimate.
            chance = seconds.get(first, 0.0) + firsts.get(second, 0.0) - 2 * by_chance
            influence = ((first == second) - agreed - (1 - self.value) * chance) / variety
            variance += share * influence**2
        error = math.sqrt(variance / self.messages) + 1 / (self.messages * variety)
        self.low, self.high = self.value - CONFIDENCE * error, self.value + CONFIDENCE * error
