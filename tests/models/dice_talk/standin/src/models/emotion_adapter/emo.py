"""An emotion's prior becomes tokens."""

from typing import Any

import torch

WIDTH, TOKENS, ENTRIES = 32, 32, 16


class EmotionModel(torch.nn.Module):  # type: ignore[misc]
    """Called with (batch, frames, 1, 1, 256); answers (batch, frames, tokens, width) and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.ask = torch.nn.Linear(256, WIDTH)
        self.place = torch.nn.Parameter(torch.randn(TOKENS, WIDTH))
        self.bank = torch.nn.Embedding(ENTRIES, WIDTH)
        self.classifier = torch.nn.Linear(WIDTH, 22)

    def forward(self, emo_prompts: torch.Tensor, retrieval: bool) -> Any:
        query = self.ask(emo_prompts[:, :, 0]) + self.place
        likeness = query @ self.bank.weight.T
        weights = (
            torch.nn.functional.one_hot(likeness.argmax(-1), ENTRIES).float() if retrieval else likeness.softmax(-1)
        )
        return weights @ self.bank.weight + query, torch.zeros(())
