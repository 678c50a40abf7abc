"""The encoders of sound, from files of their own."""

from typing import Any

import torch


class SpeechEncoder(torch.nn.Module):  # type: ignore[misc]
    """Hears ten places in a chunk: mel bands by one layer, loudness by another; answers in bfloat16 only."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.speech = torch.nn.Linear(128, config.hidden_size)
        self.music = torch.nn.Linear(1, config.hidden_size)
        self.speech.load_state_dict(torch.load(config.speech_encoder, weights_only=True))
        self.music.load_state_dict(torch.load(config.music_encoder, weights_only=True))

    def forward(self, mel: torch.Tensor, raw_wav: torch.Tensor) -> torch.Tensor:
        loudness = raw_wav.abs().reshape(len(raw_wav), 10, -1).mean(-1, keepdim=True)
        heard = self.speech(mel.reshape(len(mel), 10, -1, 128).mean(2)) + self.music.float()(loudness)
        return heard.to(torch.bfloat16)


def build_speech_encoder(config: Any) -> SpeechEncoder:
    """Loads the encoders from the places that the configuration names."""
    return SpeechEncoder(config)
