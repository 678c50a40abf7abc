"""Runs the back-end on MiniCPM-o's own code with tiny random weights, beside the model's own `chat`.

    python -m tests.models.minicpm_o.against_upstream --code FOLDER --version 4.5

FOLDER is the folder of a release without its weights: the Python files, the tokenizer's files and
preprocessor_config.json. It is copied to a temporary folder, where the weights are made; nothing of it is kept.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoModel

from services.mllm.backends.minicpm_o import MiniCpmOModel, Settings
from services.mllm.chat.model import Sampling, Turn
from services.mllm.domain import AUDIO_RATE_HZ, Frame

GREEDY = Sampling(tokens_max=12, temperature=0, top_p=1, seed=0)
QUESTION = "How does the speaker feel?"
LABELS = ("happy", "sad", "devastated", "content")
CONFIGURATION = {"2.6": "configuration_minicpm", "4.5": "configuration_minicpmo"}


def config_of(version: str, words: int) -> dict[str, Any]:
    """Returns the configuration of a model like the release, but tiny."""
    return {
        "model_type": "minicpmo",
        "version": version,
        "architectures": ["MiniCPMO"],
        "auto_map": {
            "AutoConfig": f"{CONFIGURATION[version]}.MiniCPMOConfig",
            "AutoModel": "modeling_minicpmo.MiniCPMO",
            "AutoModelForCausalLM": "modeling_minicpmo.MiniCPMO",
        },
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": words,
        "initializer_range": 0.3,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
        "query_num": 64,
        "use_image_id": True,
        "slice_config": {"max_slice_nums": 9, "patch_size": 14},
        "audio_pool_step": {"2.6": 2, "4.5": 5}[version],
        {"2.6": "chunk_input", "4.5": "stream_input"}[version]: True,
        "vision_config": {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 980,
            "patch_size": 14,
        },
        "audio_config": {
            "d_model": 64,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 256,
            "num_mel_bins": 80,
        },
    }


def make(code: Path, version: str, folder: Path) -> None:
    """Writes a whole model to `folder`: the release's code and tiny random weights."""
    for file in code.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    words = 1 + max(
        int(one) for one in json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    )
    (folder / "config.json").write_text(json.dumps(config_of(version, words)))
    torch.manual_seed(5)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True, local_files_only=True)
    config.init_tts = False
    AutoModel.from_config(config, trust_remote_code=True).save_pretrained(folder)
    # What is saved last refers to the code by its place; the release's own file does not.
    (folder / "config.json").write_text(json.dumps(config_of(version, words)))


def own_chat(model: MiniCpmOModel, content: list[Any], omni: bool, version: str) -> str:
    """Asks the model's own `chat` for the likeliest answer."""
    likeliest: dict[str, Any] = {"temperature": 1.0, "top_k": 1, "top_p": 1.0, "repetition_penalty": 1.0}
    asked: dict[str, Any] = {"max_new_tokens": GREEDY.tokens_max, "max_slice_nums": 1, "use_image_id": False}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]
    inner = model._model
    tokenizer = model._processor.tokenizer
    if version == "2.6":
        answer = inner.chat(msgs=messages, tokenizer=tokenizer, omni_input=omni, **asked, **likeliest)
    else:
        answer = inner.chat(msgs=messages, omni_mode=omni, num_beams=1, **asked, **likeliest)
    return str(answer)


def check(name: str, holds: bool, shown: str = "") -> None:
    """Prints what was seen, and fails unless it holds."""
    print(f"{'ok  ' if holds else 'FAIL'} {name} {shown}")  # noqa: T201
    if not holds:
        raise SystemExit(1)


def run(folder: Path, version: str) -> None:
    """Compares back-end and `chat` on the model in `folder`."""
    model = MiniCpmOModel(Settings(weights=folder, device="cpu", dtype="float32"))
    noise = np.random.default_rng(3)
    sound = noise.uniform(-0.5, 0.5, 3 * AUDIO_RATE_HZ).astype(np.float32)
    pictures = [noise.integers(0, 255, (120, 160, 3), dtype=np.uint8) for _ in range(3)]
    frames = tuple(Frame(second + 0.5, picture) for second, picture in enumerate(pictures))
    shown = [Image.fromarray(picture) for picture in pictures]
    seconds = np.split(sound, 3)
    unit = ["<unit>"] if version == "2.6" else []
    omni = [part for image, second in zip(shown, seconds, strict=True) for part in (*unit, image, second)]
    cases: dict[str, tuple[Turn, list[Any], bool]] = {
        "words": (Turn("user", QUESTION), [QUESTION], False),
        "words and sound": (Turn("user", QUESTION, audio=sound), [sound, QUESTION], False),
        "words and frames": (Turn("user", QUESTION, frames=frames), [*shown, QUESTION], False),
        "words, sound and frames": (
            Turn("user", QUESTION, audio=sound, frames=frames),
            [*omni, "\n" + QUESTION],
            True,
        ),
    }
    scores: dict[str, list[float]] = {}
    for name, (turn, content, is_omni) in cases.items():
        turns = (Turn("system", "Be brief."), turn)
        mine = "".join(model.stream(turns, GREEDY, lambda: False))
        theirs = own_chat(model, content, is_omni, version)
        check(f"{name}: the answer is that of the model's own chat", bool(mine) and mine == theirs, repr(mine[:60]))
        scores[name] = list(model.log_likelihoods(turns, LABELS, lambda: False))
        alone = [model.log_likelihoods(turns, [label], lambda: False)[0] for label in LABELS]
        check(f"{name}: labels score together as alone", bool(np.allclose(scores[name], alone, atol=1e-3)))
    turn = cases["words, sound and frames"][0]
    others = {
        "another word": Turn("user", "How does the listener feel?", sound, frames),
        "one second of sound": Turn("user", QUESTION, np.concatenate((sound[:-AUDIO_RATE_HZ], seconds[0])), frames),
        "the last frame": Turn("user", QUESTION, sound, (*frames[:-1], Frame(2.5, pictures[0]))),
    }
    for name, other in others.items():
        changed = model.log_likelihoods((Turn("system", "Be brief."), other), LABELS, lambda: False)
        moved = float(np.abs(np.subtract(changed, scores["words, sound and frames"])).max())
        check(f"{name} changes the scores", moved > 1e-3, f"by {moved:.3f}")
    added = model._processor.tokenizer.get_added_vocab()
    read = model._processor.tokenizer(Turn("user", " ".join(added)).text, add_special_tokens=False)["input_ids"]
    check(f"none of the {len(added)} marks of the tokenizer survives in a text", not set(read) & set(added.values()))
    note_on_streaming(model, version)


def note_on_streaming(model: MiniCpmOModel, version: str) -> None:
    """Prints what the model's own `chat` does when it is asked to stream."""
    asked: dict[str, Any] = {"msgs": [{"role": "user", "content": "Hello"}], "stream": True, "max_new_tokens": 4}
    asked |= {"tokenizer": model._processor.tokenizer} if version == "2.6" else {"num_beams": 1}
    try:
        seen = f"streams: {list(model._model.chat(**asked))}"
    except Exception as error:  # whatever it is: it is shown
        seen = f"does not stream: {type(error).__name__}: {error}"
    print(f"note the model's own chat {seen}")  # noqa: T201


def main() -> None:
    """Reads the arguments and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--code", type=Path, required=True, help="folder with a release's code and tokenizer")
    parser.add_argument("--version", choices=sorted(CONFIGURATION), required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / f"MiniCPM-o-{options.version.replace('.', '_')}"
        folder.mkdir()
        make(options.code, options.version, folder)
        run(folder, options.version)


if __name__ == "__main__":
    main()
