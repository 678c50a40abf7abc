"""A tiny MiniCPM-o with random weights and code of its own, saved as its publisher saves the large one."""

import json
import shutil
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

import emotions
from tests.models.byte_pairs import byte_pairs

STANDIN = Path(__file__).with_name("standin")
MARKS = (
    *("<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<unit>", "<image>", "</image>"),
    *("<|audio_start|>", "<|audio_end|>", "<|tts_bos|>", "<|tts_eos|>"),
)
CHATML = """\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
WITH_THOUGHTS = (
    CHATML
    + """
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- if use_tts_template is defined and use_tts_template is true %}{{ '<|tts_bos|>' }}{% endif %}"""
)


def write(folder: Path, version: str) -> None:
    """Writes a model of release `version` to `folder`, which is to exist."""
    tokenizer = _tokenizer(version)
    tokenizer.save_pretrained(folder)
    shutil.copy(STANDIN / "modeling_minicpmo.py", folder)
    shutil.copy(STANDIN / f"processing_{version.replace('.', '_')}.py", folder / "processing_minicpmo.py")
    processor = {"auto_map": {"AutoProcessor": "processing_minicpmo.MiniCPMOProcessor"}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    config = {
        "model_type": "minicpmo",
        "version": version,
        "auto_map": {"AutoConfig": "modeling_minicpmo.MiniCPMOConfig", "AutoModel": "modeling_minicpmo.MiniCPMO"},
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.3,
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(3)
    loaded = AutoConfig.from_pretrained(folder, trust_remote_code=True, local_files_only=True)
    loaded.init_tts = False
    AutoModel.from_config(loaded, trust_remote_code=True).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))


def _tokenizer(version: str) -> PreTrainedTokenizerFast:
    texts = [*emotions.load().labels, "What does the speaker feel? Answer with one word."]
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_pairs(texts, MARKS, 500),
        unk_token="<unk>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template={"2.6": CHATML, "4.5": WITH_THOUGHTS}[version],
        clean_up_tokenization_spaces=False,
    )
