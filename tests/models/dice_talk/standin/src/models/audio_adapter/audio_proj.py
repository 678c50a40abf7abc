"""What Whisper hears becomes tokens."""

import torch
from diffusers import ModelMixin


class AudioProjModel(ModelMixin):  # type: ignore[misc]
    """Called with (batch, frames, positions, blocks, channels); answers (batch, frames, tokens, width)."""

    def __init__(
        self,
        seq_len: int = 5,
        blocks: int = 12,
        channels: int = 768,
        intermediate_dim: int = 512,
        output_dim: int = 768,
        context_tokens: int = 32,
    ) -> None:
        super().__init__()
        self.hear = torch.nn.Linear(seq_len * blocks * channels, intermediate_dim)
        self.say = torch.nn.Linear(intermediate_dim, output_dim)
        self.place = torch.nn.Parameter(torch.randn(context_tokens, output_dim))

    def forward(self, audio_embeds: torch.Tensor) -> torch.Tensor:
        said = self.say(torch.tanh(self.hear(audio_embeds.flatten(2))))
        return torch.sin(said[:, :, None] * 3 + self.place)
