"""Tiny models of the genuine classes with random weights, saved as their publishers save the large ones."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import sentencepiece
import torch
from tokenizers import Tokenizer
from transformers import (
    InternLM3Config,
    LlamaConfig,
    LlamaForCausalLM,
    MiniCPM3Config,
    MiniCPM3ForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)

import emotions
from tests.models.byte_pairs import byte_pairs

WORDS = [
    *emotions.load().labels,
    "You are a friend who listens. What does the speaker feel? Answer with one word. user system assistant",
    "My dog died on Monday, and nobody at work said a word. I got the job! Why would you do that to me?",
    "USER: Hello! ASSISTANT: Good morning, how are you? I am so sorry. That is wonderful news, tell me more.",
]
"""What the tiny tokenizers learn their pieces from."""
_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}

ENDS_WITH_SPACE = """\
{{- bos_token }}
{%- for message in messages %}{{ message.role + ': ' + message.content + '<|eot_id|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"""
CHATML = """\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
LLAMA_3 = """\
{{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
NO_SYSTEM = """\
{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'system' %}{{ raise_exception('the system role is not supported') }}{% endif %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""


def bytes_bpe(special: Sequence[str]) -> Tokenizer:
    """A tokenizer for `WORDS`."""
    return byte_pairs(WORDS, special, 600)


def enlarge(model: PreTrainedModel) -> None:
    """Random weights of the usual size make all words nearly equal; larger ones tell answers apart."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" not in name:
                weight.mul_(5)


def _save(model: PreTrainedModel, folder: Path, ends: int | list[int]) -> Path:
    enlarge(model)
    model.generation_config.eos_token_id = ends
    model.save_pretrained(folder)
    return folder


def llama_3(folder: Path, template: str = LLAMA_3) -> Path:
    """Llama-3-8B-Instruct: its generation ends with either of two tokens."""
    marks = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_bpe(marks), bos_token=marks[0], eos_token=marks[4], chat_template=template
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), bos_token_id=None, pad_token_id=None, **_SMALL))
    return _save(model, folder, tokenizer.convert_tokens_to_ids([marks[1], marks[4]]))


def vicuna(folder: Path) -> Path:
    """Vicuna-1.5: a SentencePiece file without a chat template, and weights in PyTorch's own format."""
    _sentencepiece(folder, {"tokenizer_class": "LlamaTokenizer", "legacy": False})
    torch.manual_seed(2)
    small = {**_SMALL, "num_key_value_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=400, bos_token_id=1, eos_token_id=2, pad_token_id=0, **small))
    _save(model, folder, 2)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def qwen2(folder: Path, ties: bool = False) -> Path:
    """Qwen2.5-7B-Instruct; the smallest of the family tie what reads words to what writes them."""
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    backend = bytes_bpe(marks)
    tokenizer = Qwen2Tokenizer(tokenizer_object=backend, eos_token=marks[2], pad_token=marks[0], chat_template=CHATML)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    config = Qwen2Config(
        vocab_size=len(tokenizer), bos_token_id=None, pad_token_id=None, tie_word_embeddings=ties, **_SMALL
    )
    return _save(Qwen2ForCausalLM(config), folder, tokenizer.convert_tokens_to_ids([marks[2], marks[0]]))


def internlm3(folder: Path) -> Path:
    """InternLM3-8B-Instruct: it names code of its own, but transformers reads tokenizer and weights without that."""
    marks = {"400": "<|im_end|>", "401": "<|im_start|>"}
    code = {"AutoTokenizer": ["tokenization_internlm3.InternLM3Tokenizer", None]}
    added = {place: {"content": mark, "special": True, "normalized": False} for place, mark in marks.items()}
    template = "{{ bos_token }}" + CHATML
    _sentencepiece(
        folder,
        {
            "tokenizer_class": "InternLM3Tokenizer",
            "auto_map": code,
            "chat_template": template,
            "added_tokens_decoder": added,
        },
    )
    torch.manual_seed(4)
    config = InternLM3Config(vocab_size=402, head_dim=8, pad_token_id=2, **_SMALL)
    _save(LlamaForCausalLM._from_config(config), folder, [2, 400])
    content = json.loads((folder / "config.json").read_text())
    content |= {
        "architectures": ["InternLM3ForCausalLM"],
        "auto_map": {"AutoModelForCausalLM": "modeling_internlm3.InternLM3ForCausalLM"},
    }
    (folder / "config.json").write_text(json.dumps(content))
    return folder


def minicpm3(folder: Path) -> Path:
    """MiniCPM3, the last text model of its family that transformers has; MiniCPM4 brings its own code."""
    tokenizer = _chatml(folder)
    torch.manual_seed(5)
    small = {**_SMALL, "num_key_value_heads": 4}
    config = MiniCPM3Config(
        vocab_size=len(tokenizer),
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=8,
        v_head_dim=8,
        dim_model_base=32,
        pad_token_id=None,
        **small,
    )
    return _save(MiniCPM3ForCausalLM(config), folder, tokenizer.eos_token_id)


def with_own_code(folder: Path) -> Path:
    """A model that brings its Python file, as MiniCPM4 does."""
    tokenizer = _chatml(folder)
    (folder / "modeling_own.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n\n\n"
        'class OwnConfig(LlamaConfig):\n    model_type = "own"\n\n\n'
        "class OwnForCausalLM(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    torch.manual_seed(6)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), bos_token_id=None, pad_token_id=None, **_SMALL))
    _save(model, folder, tokenizer.eos_token_id)
    config = (folder / "config.json").read_text().replace('"llama"', '"own"').replace("LlamaFor", "OwnFor")
    classes = {"AutoConfig": "modeling_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    (folder / "config.json").write_text(json.dumps({**json.loads(config), "auto_map": classes}))
    return folder


def _chatml(folder: Path) -> PreTrainedTokenizerFast:
    marks = ["<unk>", "<s>", "</s>", "<|im_end|>", "<|im_start|>"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_bpe(marks),
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        chat_template="{{ bos_token }}" + CHATML,
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def _sentencepiece(folder: Path, config: dict[str, object]) -> None:
    """Trains a SentencePiece BPE of 400 pieces, as Llama 2 has one."""
    folder.mkdir(parents=True)
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(WORDS * 3),
        model_writer=trained,
        model_type="bpe",
        vocab_size=400,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    (folder / "tokenizer.model").write_bytes(trained.getvalue())
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, **config}))
