"""Runs the back-end on Ola's own code with tiny random weights, beside the way Ola's own script calls it.

    python -m tests.models.ola.against_upstream --checkout FOLDER

FOLDER is a checkout of Ola's code. On a machine without a GPU its FlashAttention and DeepSpeed cannot be had: two
functions of PyTorch stand in for the one, nothing for the other, of which nothing is called.
"""

import argparse
import importlib
import importlib.util
import sys
import tempfile
from dataclasses import asdict
from importlib.machinery import ModuleSpec
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from services.mllm.backends.ola import OlaModel, Settings
from services.mllm.chat.model import Sampling, Turn
from services.mllm.domain import AUDIO_RATE_HZ, Frame
from services.mllm.ola.checkout import open_checkout
from tests.models.ola.tiny import relocate, write_tokenizer

GREEDY = Sampling(tokens_max=12, temperature=0, top_p=1, seed=0)
QUESTION = "How does the speaker feel?"
LABELS = ("happy", "sad", "devastated", "content")
SPEECH_WIDTH = 64


def stand_in_for_cuda() -> None:
    """Makes what Ola's picture encoder imports importable on a machine without CUDA."""
    for name in ("flash_attn", "deepspeed"):
        if importlib.util.find_spec(name) is None:
            module: Any = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)
            module.flash_attn_func = attention
            module.flash_attn_varlen_func = attention_within
            sys.modules[name] = module
            print(f"note there is no {name} here; something stands in for it")  # noqa: T201


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, softmax_scale: float) -> torch.Tensor:
    """Attends over whole sequences; tensors are (sequences, tokens, heads, width)."""
    parts = (one.transpose(1, 2) for one in (query, key, value))
    return torch.nn.functional.scaled_dot_product_attention(*parts, scale=softmax_scale).transpose(1, 2)


def attention_within(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cu_seqlens_q: torch.Tensor, **others: Any
) -> torch.Tensor:
    """Attends within each of several sequences that follow each other; tensors are (tokens, heads, width)."""
    ends = cu_seqlens_q.tolist()
    parts = []
    for begin, end in pairwise(ends):
        one = [part[None, begin:end] for part in (query, key, value)]
        parts.append(attention(one[0], one[1], one[2], others["softmax_scale"])[0])
    return torch.cat(parts)


def make(settings: Settings) -> None:
    """Writes a tiny Ola with its two encoders where the settings name them."""
    torch.manual_seed(5)
    code = open_checkout(settings.checkout)
    vision = importlib.import_module("ola.model.multimodal_encoder.oryx_vit")
    vision.SigLIP_MODEL_CONFIG["siglip_so400m_patch16_384"]["layers"] = 2
    whisper: Any = importlib.import_module("whisper.model")
    sizes = whisper.ModelDimensions(128, 1500, SPEECH_WIDTH, 2, 2, 100, 8, SPEECH_WIDTH, 2, 1)
    torch.save(
        {"dims": asdict(sizes), "model_state_dict": whisper.Whisper(sizes).state_dict()}, settings.speech_encoder
    )
    beats = importlib.import_module("ola.model.speech_encoder.beats.BEATs")
    cfg = {
        "input_patch_size": 16,
        "embed_dim": 32,
        "encoder_layers": 1,
        "encoder_embed_dim": SPEECH_WIDTH,
        "encoder_ffn_embed_dim": 128,
        "encoder_attention_heads": 4,
        "deep_norm": True,
        "relative_position_embedding": True,
        "num_buckets": 32,
        "max_distance": 100,
        "gru_rel_pos": True,
    }
    torch.save({"cfg": cfg, "model": beats.BEATs(beats.BEATsConfig(cfg)).state_dict()}, settings.music_encoder)
    words = write_tokenizer(settings.weights)
    config = code.config(
        vocab_size=words + 10,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32768,
        initializer_range=0.2,
        tie_word_embeddings=False,
        speech_encoder=str(settings.speech_encoder),
        speech_encoder_type="dual",
        speech_projector_type="linear",
        speech_encoder_ds_rate=10,
        speech_encoder_hidden_size=2 * SPEECH_WIDTH,
        music_encoder=str(settings.music_encoder),
        mm_vision_tower="./pretrained/oryx_vit.pth",
        mm_projector_type="ola_mlp",
        mm_hidden_size=1152,
    )
    model = code.model(config)
    for parameter in model.get_vision_tower().parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    model.save_pretrained(settings.weights)
    relocate(settings.weights)


def as_the_script(model: OlaModel, frames: tuple[Frame, ...], sound: np.ndarray[Any, Any]) -> torch.Tensor:
    """Returns what the language model reads when Ola's script asks: its tokens, and a tensor for a clip."""
    preprocess = importlib.import_module("ola.datasets.preprocess")
    talk = model._ola.conversation.copy()
    talk.append_message(talk.roles[0], f"<speech><image>\n{QUESTION}")
    talk.append_message(talk.roles[1], None)
    tokens = preprocess.tokenizer_speech_image_token(talk.get_prompt(), model._tokenizer, -300, return_tensors="pt")
    whisper: Any = importlib.import_module("whisper")
    video = model._video(frames)
    wave = torch.from_numpy(whisper.pad_or_trim(sound))
    mel = whisper.log_mel_spectrogram(wave, n_mels=128).permute(1, 0).unsqueeze(0).bfloat16()
    with torch.inference_mode():
        prepared = model._model.prepare_inputs_labels_for_speech_vision_text(
            tokens[None], None, torch.ones_like(tokens)[None], None, None,
            [mel], [torch.LongTensor([3000])], [torch.LongTensor([1])], [wave[None]],
            video, "video", None, video,
        )  # fmt: skip
    embeddings: torch.Tensor = prepared[4]
    return embeddings


def own_answer(model: OlaModel, turns: tuple[Turn, ...]) -> str:
    """Asks the model's own `generate` for the likeliest answer, for a list of one clip."""
    mel, wave = model._speech(turns[-1].audio if turns[-1].audio is not None else np.zeros(1, np.float32))
    video = model._video(turns[-1].frames)
    tokens = torch.tensor([model._tokens(turns, True, True)])
    output = model._model.generate(
        inputs=tokens,
        images=[video],
        images_highres=[video],
        modalities=["video"],
        speech=[mel],
        speech_lengths=[torch.LongTensor([3000])],
        speech_chunks=[torch.LongTensor([1])],
        speech_wav=[wave],
        attention_mask=torch.ones_like(tokens),
        do_sample=False,
        max_new_tokens=GREEDY.tokens_max,
        eos_token_id=list(model._ends),
        pad_token_id=model._ends[1],
    )
    text = str(model._tokenizer.decode(output[0], skip_special_tokens=True))
    return text.rstrip("\N{REPLACEMENT CHARACTER}")  # a character that is not whole is never said


def check(name: str, holds: bool, shown: str = "") -> None:
    """Prints what was seen, and fails unless it holds."""
    print(f"{'ok  ' if holds else 'FAIL'} {name} {shown}")  # noqa: T201
    if not holds:
        raise SystemExit(1)


def run(settings: Settings) -> None:
    """Compares the back-end and the script's way on the model of the settings."""
    model = OlaModel(settings)
    noise = np.random.default_rng(3)
    sound = noise.uniform(-0.5, 0.5, 3 * AUDIO_RATE_HZ).astype(np.float32)
    pictures = [noise.integers(0, 255, (240, 320, 3), dtype=np.uint8) for _ in range(7)]
    frames = tuple(Frame(place / 2, picture) for place, picture in enumerate(pictures[:6]))
    turn = Turn("user", QUESTION, sound, frames)
    mine = model.embeddings((turn,))
    script = as_the_script(model, frames, sound)
    of_frame = model._model.get_model().mm_projector
    # 320 x 240 is enlarged to 320 x 192 at least 288 squared: rows of places of two patches, a line end each, a mark.
    per_frame = (mine.shape[1] - script.shape[1]) // (len(frames) - 1)
    check(
        "each further frame adds its places",
        per_frame > 50 and mine.shape[1] == script.shape[1] + (len(frames) - 1) * per_frame,
        f"{script.shape[1]} places as the script asks, {mine.shape[1]} here: {per_frame} a frame",
    )
    one = model.embeddings((Turn("user", QUESTION, sound, frames[:1]),))
    check(
        "with one frame both read the same",
        bool(torch.allclose(one, script, rtol=0.02, atol=0.02)),
        f"apart by {float((one - script).abs().max()):.4f} at most",
    )
    for place in range(len(frames)):
        other = (*frames[:place], Frame(frames[place].time_s, pictures[6]), *frames[place + 1 :])
        moved = (model.embeddings((Turn("user", QUESTION, sound, other),)) != mine).any(-1)[0].nonzero()
        in_script = not torch.equal(as_the_script(model, other, sound), script)
        first, last = int(moved.min()), int(moved.max())
        check(
            f"frame {place + 1} of {len(frames)} reaches the language model at its own places",
            last - first < per_frame and (place > 0) != in_script,
            f"places {first} to {last}; as the script asks: {'read' if in_script else 'lost'}",
        )
    quiet = model.embeddings((Turn("user", QUESTION, np.zeros_like(sound), frames),))
    moved = (quiet != mine).any(-1)[0].nonzero()
    begin = int((of_frame.image_begin.to(mine.dtype) == mine[0]).all(-1).nonzero()[0])
    check(
        "sound is read behind the pictures, though named first, as the weights are run",
        begin < int(moved.min()) and int(moved.min()) > begin + per_frame * len(frames),
        f"pictures from place {begin}, sound from {int(moved.min())}",
    )
    turns = (Turn("system", "Be brief."), turn)
    answer = "".join(model.stream(turns, GREEDY, lambda: False))
    theirs = own_answer(model, turns)
    check("the answer is that of the model's own generate", bool(answer) and answer == theirs, repr(answer))
    together = model.log_likelihoods(turns, LABELS, lambda: False)
    alone = [model.log_likelihoods(turns, [label], lambda: False)[0] for label in LABELS]
    check("labels score together as alone", bool(np.allclose(together, alone, rtol=0.02)), str(np.round(together, 2)))
    for name, other_turn in {
        "words alone": Turn("user", QUESTION),
        "words and sound": Turn("user", QUESTION, sound),
        "words and frames": Turn("user", QUESTION, frames=frames),
    }.items():
        changed = model.log_likelihoods((turns[0], other_turn), LABELS, lambda: False)
        moved_by = float(np.abs(np.subtract(changed, together)).max())
        check(f"{name} score otherwise than all three", moved_by > 0.05, f"by {moved_by:.2f}")


def main() -> None:
    """Reads the arguments and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True, help="a checkout of Ola's code")
    options = parser.parse_args()
    stand_in_for_cuda()
    with tempfile.TemporaryDirectory() as place:
        weights = Path(place) / "Ola-7b"
        weights.mkdir()
        settings = Settings(
            checkout=options.checkout,
            weights=weights,
            speech_encoder=Path(place) / "large-v3.pt",
            music_encoder=Path(place) / "BEATs.pt",
            device="cpu",
        )
        make(settings)
        run(settings)


if __name__ == "__main__":
    main()
