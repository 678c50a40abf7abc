"""Sequential test for a sample-ratio mismatch: whether users were split as the weights say.

Lindon & Malek 2022, "Anytime-Valid Inference for Multinomial Count Data". The counts n are tested against the expected
shares s by a Bayes factor with a Dirichlet prior, a = CONCENTRATION * s, A = sum(a), N = sum(n):

    B = Gamma(A) / Gamma(A + N) * prod(Gamma(a_i + n_i) / Gamma(a_i)) / prod(s_i ^ n_i),    p = min(1, 1 / B).

B is a martingale under the expected shares, so that the test may be looked at after every user.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

LEVEL = 0.01
"""Chance of a false alarm over all phases together. A mismatch withholds every verdict, so it is small."""
CONCENTRATION = 100
"""Users that the prior is worth: it expects mismatches of some percent of the users."""


@dataclass(frozen=True)
class RatioTest:
    """Verdict on the split of users in one phase.

    Attributes:
        expected: Share of the users that each variant should have.
        users: Users that it has.
        p_value: Always-valid p-value of the expected shares.
        level: Greatest p-value that is a mismatch.
    """

    expected: Mapping[str, float]
    users: Mapping[str, int]
    p_value: float
    level: float

    @property
    def is_mismatch(self) -> bool:
        """Whether the users were not split as expected."""
        return self.p_value <= self.level


def check(users: Mapping[str, int], weights: Mapping[str, float], level: float) -> RatioTest:
    """Test counts of users against the weights of their phase; users of a variant without weight are a mismatch."""
    total = sum(weights.values())
    shares = {name: weights.get(name, 0.0) / total for name in {**weights, **users}}
    if any(users.get(name, 0) for name, share in shares.items() if not share):
        return RatioTest(shares, users, 0.0, level)
    counts = {name: users.get(name, 0) for name, share in shares.items() if share}
    log_evidence = math.lgamma(CONCENTRATION) - math.lgamma(CONCENTRATION + sum(counts.values()))
    for name, count in counts.items():
        prior = CONCENTRATION * shares[name]
        log_evidence += math.lgamma(prior + count) - math.lgamma(prior) - count * math.log(shares[name])
    return RatioTest(shares, users, math.exp(min(0.0, -log_evidence)), level)


def phase_level(index: int) -> float:
    """Return the level of a phase, from 0. The levels of all phases, however many come, add up to `LEVEL`."""
    return LEVEL / ((index + 1) * (index + 2))
