"""What Whisper hears becomes tokens."""

import torch
from diffusers import ModelMixin


class AudioProjModel(ModelMixin):  # type: ignore[misc]
    """Called with (batch, frames, positions, blocks, channels); answers (batch, frames, tokens, width).

    The names of modules, classes and arguments are the interface; the arithmetic is our own, here and beside.
    """

    def __init__(
        self, *, blocks: int, channels: int, context_tokens: int, intermediate_dim: int, output_dim: int, seq_len: int
    ) -> None:
        super().__init__()
        self.hear = torch.nn.Linear(seq_len * blocks * channels, intermediate_dim)
        self.say = torch.nn.Linear(intermediate_dim, output_dim)
        self.place = torch.nn.Parameter(torch.randn(context_tokens, output_dim))

    def forward(self, audio_embeds: torch.Tensor) -> torch.Tensor:
        said = self.say(torch.tanh(self.hear(audio_embeds.flatten(2))))
        return torch.sin(said[:, :, None] * 3 + self.place)
