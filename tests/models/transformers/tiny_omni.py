"""A tiny Qwen2.5-Omni with all its towers, laid out as the checkpoint is published."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Qwen2_5OmniThinkerConfig, Qwen2_5OmniThinkerForConditionalGeneration, Qwen2Tokenizer

from tests.models.transformers.tiny import bytes_bpe, enlarge

TEXT_MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MEDIA_MARKS = {
    "audio_token": "<|AUDIO|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "image_token": "<|IMAGE|>",
    "video_token": "<|VIDEO|>",
}
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.content is string %}{{ message.content }}
{%- else %}
{%- for item in message.content %}
{%- if item.type == 'audio' %}{{ '<|audio_bos|><|AUDIO|><|audio_eos|>' }}
{%- elif item.type == 'video' %}{{ '<|vision_bos|><|VIDEO|><|vision_eos|>' }}
{%- else %}{{ item.text }}{% endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
PREPROCESSOR = {
    "processor_class": "Qwen2_5OmniProcessor",
    "feature_extractor_type": "WhisperFeatureExtractor",
    "image_processor_type": "Qwen2VLImageProcessor",
    "feature_size": 128,
    "sampling_rate": 16000,
    "hop_length": 160,
    "n_fft": 400,
    "chunk_length": 300,
    "n_samples": 4800000,
    "nb_max_frames": 30000,
    "padding_side": "left",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
}


def qwen_omni(folder: Path) -> Path:
    """Qwen2.5-Omni-7B: weights under "thinker.", beside those of the talker; one file for all preprocessing."""
    folder.mkdir(parents=True)
    tokenizer = Qwen2Tokenizer(
        tokenizer_object=bytes_bpe([*TEXT_MARKS, *MEDIA_MARKS.values()]),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=MEDIA_MARKS,
    )
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    thinker = _config(tokenizer)
    torch.manual_seed(7)
    model = Qwen2_5OmniThinkerForConditionalGeneration(Qwen2_5OmniThinkerConfig(**thinker))
    enlarge(model)
    weights = {f"thinker.{_published(name)}": weight.clone() for name, weight in model.state_dict().items()}
    weights["talker.thinker_to_talker_proj.weight"] = torch.zeros(2, 2)
    weights["token2wav.code2wav_dit_model.time_embed.time_mlp.0.weight"] = torch.zeros(2, 2)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = {"model_type": "qwen2_5_omni", "architectures": ["Qwen2_5OmniModel"], "thinker_config": thinker}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _published(name: str) -> str:
    """The name of a weight in the checkpoint: the towers stand beside the language model there, not around it."""
    return (
        name.replace("model.language_model.", "model.")
        .replace("model.audio_tower.", "audio_tower.")
        .replace("model.visual.", "visual.")
    )


def _config(tokenizer: Qwen2Tokenizer) -> dict[str, object]:
    ids = {name: tokenizer.convert_tokens_to_ids(mark) for name, mark in MEDIA_MARKS.items()}
    return {
        "model_type": "qwen2_5_omni_thinker",
        "audio_config": {
            "encoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "d_model": 32,
            "output_dim": 32,
        },
        "vision_config": {
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
        },
        "text_config": {
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 8192,
            "rope_theta": 1000000.0,
            "rope_scaling": {"mrope_section": [2, 3, 3], "rope_type": "default", "type": "default"},
        },
        "audio_token_index": ids["audio_token"],
        "audio_start_token_id": ids["audio_bos_token"],
        "audio_end_token_id": ids["audio_eos_token"],
        "image_token_index": ids["image_token"],
        "video_token_index": ids["video_token"],
        "vision_start_token_id": ids["vision_bos_token"],
        "vision_end_token_id": ids["vision_eos_token"],
        "position_id_per_seconds": 25,
        "seconds_per_chunk": 2,
        "user_token_id": 1,
    }
