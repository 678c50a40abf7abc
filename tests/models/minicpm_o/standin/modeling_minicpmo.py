"""A model that is asked as MiniCPM-o is, with encoders of one layer: what a test loads as a folder's own code."""

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2PreTrainedModel


class MiniCPMOConfig(Qwen2Config):  # type: ignore[misc]
    """Configuration; what it says of the voice is never needed."""

    model_type = "minicpmo"

    def __init__(self, init_vision: bool = True, init_audio: bool = True, init_tts: bool = True, **others: Any) -> None:
        self.init_vision, self.init_audio, self.init_tts = init_vision, init_audio, init_tts
        self.audio_chunk_length = 1.0
        super().__init__(**others)


class MiniCPMO(Qwen2PreTrainedModel):  # type: ignore[misc]
    """A Qwen2 that sees the mean colours of a frame's quarters, and hears loudness and roughness ten times a second."""

    config_class = MiniCPMOConfig

    def __init__(self, config: MiniCPMOConfig) -> None:
        super().__init__(config)
        if config.init_tts:
            raise RuntimeError("the voice is not needed")
        self.llm = Qwen2ForCausalLM(config)
        if config.init_vision:
            self.vpm = torch.nn.Linear(3, config.hidden_size)
        if config.init_audio:
            self.apm = torch.nn.Linear(2, config.hidden_size)
        self.terminators = ["<|im_end|>", "<|endoftext|>"]
        self.default_tts_chat_template = (
            "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
            "{% endfor %}<|im_start|>assistant\n<|tts_bos|>"
        )

    def get_vllm_embedding(self, data: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Returns the embeddings of words and frames, and those of the frames alone."""
        embeddings = self.llm.model.embed_tokens(data["input_ids"]).clone()
        colours = data["pixel_values"][0]
        seen = [self.vpm(one.to(embeddings.dtype)) for one in colours]
        for bound, features in zip(data["image_bound"][0].tolist(), seen, strict=True):
            embeddings[0, bound[0] : bound[1]] = features
        return embeddings, seen

    def get_omni_embedding(
        self, data: Any, input_embeddings: torch.Tensor, chunk_length: float = -1, stream_input: bool = False
    ) -> torch.Tensor:
        """Returns the embeddings with those of the sound in their places."""
        if chunk_length != self.config.audio_chunk_length or stream_input:
            raise ValueError("sound is heard by the second, as it was when the model was trained")
        heard = self.apm(data["audio_features"].to(input_embeddings.dtype))
        begin = 0
        for bound in data["audio_bounds"][0].tolist():
            end = begin + bound[1] - bound[0]
            input_embeddings[0, bound[0] : bound[1]] = heard[begin:end]
            begin = end
        if begin != len(heard):
            raise ValueError(f"{len(heard)} places of sound were heard, the prompt has {begin}")
        return input_embeddings
