"""Puts candidates in order: close to the message, close to how one answers this emotion, likely for the model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.mllm.language.model import Candidate
from services.mllm.reply.exemplars import Embedder, Exemplars

RELEVANCE_WEIGHT, FIT_WEIGHT, LIKELIHOOD_WEIGHT = 0.4, 1.0, 0.1
FIT_NEIGHBOURS = 2
"""How many of the label's own replies a candidate is compared with."""


@dataclass(frozen=True)
class Ranked:
    """A candidate with its parts of the score, all of them larger for better."""

    candidate: Candidate
    relevance: float
    fit: float

    @property
    def score(self) -> float:
        """The weighted sum."""
        likelihood = LIKELIHOOD_WEIGHT * self.candidate.log_likelihood
        return RELEVANCE_WEIGHT * self.relevance + FIT_WEIGHT * self.fit + likelihood


def rank(
    candidates: Sequence[Candidate],
    message: NDArray[np.float32],
    label: str,
    exemplars: Exemplars,
    embedder: Embedder,
) -> list[Ranked]:
    """Returns the candidates, the best first. `message`: float32 (384,), of length 1."""
    if not candidates:
        return []
    vectors = embedder.embed([candidate.text for candidate in candidates])
    similarity = np.sort(vectors @ exemplars.reply_vectors[label].T, axis=1)[:, -FIT_NEIGHBOURS:]
    ranked = [
        Ranked(candidate, float(vector @ message), float(fit))
        for candidate, vector, fit in zip(candidates, vectors, similarity.mean(axis=1), strict=True)
    ]
    return sorted(ranked, key=lambda one: -one.score)
