"""Memory of the paper's models: the table of docs/models.md, counted from the genuine classes at the published shapes.

    PYTHONPATH=tests/models/torchvision_names .venv-models/transformers/bin/python -m benchmarks.model_memory

in the environment of `make test-models-transformers`. The path is for torchvision beside a CPU build of PyTorch.
Nothing is loaded: the models are built on PyTorch's meta device, where a tensor has a shape and a type but no content.
The shapes are those of the `config.json` that each publisher put beside the weights. What a token keeps is counted from
the cache after one token was read. MiniCPM4 brings its own code; a Llama of its shape has as many weights.
"""

import sys
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    InternLM3Config,
    LlamaConfig,
    PreTrainedModel,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
    Qwen2Config,
)

DTYPE = torch.bfloat16
QWEN = {
    "vocab_size": 152_064,
    "hidden_size": 3584,
    "intermediate_size": 18_944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
}
HEARING = {
    "num_mel_bins": 128,
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "output_dim": 3584,
}
SEEING = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "patch_size": 14,
    "out_hidden_size": 3584,
}
CONFIGS = {
    "Vicuna-1.5-7B": LlamaConfig(
        vocab_size=32_000,
        hidden_size=4096,
        intermediate_size=11_008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=32,
    ),
    "Llama-3-8B-Instruct": LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
    ),
    "InternLM3-8B-Instruct": InternLM3Config(
        vocab_size=128_512,
        hidden_size=4096,
        intermediate_size=10_240,
        num_hidden_layers=48,
        num_attention_heads=32,
        num_key_value_heads=2,
        head_dim=128,
    ),
    "Qwen2.5-7B-Instruct": Qwen2Config(**QWEN),
    "MiniCPM4-8B": LlamaConfig(
        vocab_size=73_448,
        hidden_size=4096,
        intermediate_size=16_384,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=2,
    ),
    "Qwen2.5-Omni-7B": Qwen2_5OmniThinkerConfig(
        text_config={
            **QWEN,
            "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default", "type": "default"},
        },
        audio_config=HEARING,
        vision_config=SEEING,
    ),
}


def built(config: Any) -> PreTrainedModel:
    """Returns the model of a configuration, without content."""
    with torch.device("meta"):
        if isinstance(config, Qwen2_5OmniThinkerConfig):
            return Qwen2_5OmniThinkerForConditionalGeneration._from_config(config, dtype=DTYPE)
        return AutoModelForCausalLM.from_config(config, dtype=DTYPE)


def weights_gb(model: PreTrainedModel) -> float:
    """Returns the gigabytes of all weights."""
    return sum(int(weight.nbytes) for weight in model.parameters()) / 1e9


def token_kib(model: PreTrainedModel) -> float:
    """Returns the KiB of keys and values that one token leaves in the cache."""
    cache = DynamicCache(config=model.config.get_text_config())
    with torch.inference_mode():
        model(input_ids=torch.ones((1, 1), dtype=torch.long, device="meta"), past_key_values=cache, use_cache=True)
    return sum(int(layer.keys.nbytes + layer.values.nbytes) for layer in cache.layers) / 1024


def main() -> None:
    """Prints a line per model."""
    for name, config in CONFIGS.items():
        model = built(config)
        sys.stdout.write(f"{name:<22} {weights_gb(model):5.1f} GB {token_kib(model):5.0f} KiB per token\n")


if __name__ == "__main__":
    main()
