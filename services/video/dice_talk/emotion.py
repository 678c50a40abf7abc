"""An emotion's prior becomes tokens."""

from collections.abc import Mapping
from typing import Final

import torch

from services.common.caches import LastUsed
from services.video.dice_talk.models import Models
from services.video.dice_talk.priors import CLASSES
from services.video.domain import Expression

KEPT: Final = 64
INTENSITY_STEPS: Final = 20
"""Intensity is rounded to twentieths: finer is not seen, and these are kept."""


class EmotionTokens:
    """Tokens of each class and intensity; those at full intensity are made at once.

    Attributes:
        none: (tokens, width): the tokens of no emotion, which guidance leads away from. Not those of `neutral`.
    """

    def __init__(self, models: Models, priors: Mapping[str, torch.Tensor]) -> None:
        self._models = models
        self._priors = priors
        self._kept: LastUsed[tuple[str, int], torch.Tensor] = LastUsed(KEPT)
        self.none = self._tokens(torch.zeros_like(priors[CLASSES[0]]))
        for face_class in CLASSES:
            self.tokens(Expression(face_class, 1.0))

    def tokens(self, expression: Expression) -> torch.Tensor:
        """Returns (tokens, width). Intensity leads from the prior of `neutral` (0) to that of the class (1)."""
        grade = round(expression.intensity * INTENSITY_STEPS)

        def make() -> torch.Tensor:
            neutral, strong = self._priors["neutral"], self._priors[expression.face_class]
            return self._tokens(torch.lerp(neutral, strong, grade / INTENSITY_STEPS))

        return self._kept.get((expression.face_class, grade), make)

    def _tokens(self, prior: torch.Tensor) -> torch.Tensor:
        # (batch, frames, 1, 1, 256). Without retrieval, as the checkout's configuration has it: the tokens attend to
        # the whole bank of emotions instead of its nearest entry.
        asked = prior.to(self._models.device).view(1, 1, 1, 1, -1)
        tokens: torch.Tensor = self._models.emotion_model(asked, retrieval=False)[0][0, 0]
        return tokens.to(self._models.dtype)
