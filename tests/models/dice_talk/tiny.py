"""Tiny random weights in the layout of the published ones.

    python -m tests.models.dice_talk.tiny FOLDER

writes them, and prints the settings with which the service, or a benchmark, runs on them and the stand-in.
"""

import argparse
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLTemporalDecoder, EulerDiscreteScheduler
from transformers import (
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperModel,
)

from services.common.images import decode_image
from services.video.backends.dice_talk import Settings
from services.video.dice_talk import priors
from services.video.dice_talk.checkout import Checkout, open_checkout
from services.video.dice_talk.models import GUIDER_CHANNELS, HEARD, PROJECTION_WIDTH, SVD, TOKENS
from services.video.dice_talk.tiers import Tier
from services.video.domain import Portrait

ROOT = Path(__file__).parents[3]
PORTRAIT = ROOT / "services" / "memory" / "identities" / "anna" / "portrait.png"
STANDIN = Path(__file__).with_name("standin")
TIERS = {
    "best": Tier(steps=4, side_px=128, interpolated=True),
    "good": Tier(steps=3, side_px=64, interpolated=True),
    "draft": Tier(steps=2, side_px=64, interpolated=False),
}
SCHEDULE = {
    # As published with Stable Video Diffusion XT.
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "interpolation_type": "linear",
    "num_train_timesteps": 1000,
    "prediction_type": "v_prediction",
    "sigma_max": 700.0,
    "sigma_min": 0.002,
    "steps_offset": 1,
    "timestep_spacing": "leading",
    "timestep_type": "continuous",
    "use_karras_sigmas": True,
}
WHISPER = {"layers": 2, "width": 16}


def write(place: Path, checkout: Path = STANDIN, **unet: Any) -> Settings:
    """Writes weights and priors for the code in `checkout` below `place`; `unet` is the U-Net's configuration."""
    torch.manual_seed(3)
    code = open_checkout(checkout)
    weights = place / "checkpoints"
    for folder in ("DICE-Talk", "RIFE", SVD / "unet"):
        (weights / folder).mkdir(parents=True)
    width = unet.get("cross_attention_dim", 32)
    write_stable_video_diffusion(weights / SVD, width)
    write_whisper(weights / "whisper-tiny")
    write_dice_talk(weights, code, **unet)
    emotions = place / "emo"
    emotions.mkdir()
    write_priors(emotions)
    priors.convert(emotions, weights / priors.FILE)
    return Settings(
        checkout=checkout,
        weights=weights,
        models_dir=ROOT / ".models",
        device="cpu",
        dtype="float32",
        tiers=TIERS,
        segment_first_s=0.5,
        segment_min_s=1.0,
        segment_max_s=4.0,
    )


def write_stable_video_diffusion(folder: Path, width: int) -> None:
    """Writes a tiny autoencoder, CLIP and schedule; the schedule is the published one."""
    vae = AutoencoderKLTemporalDecoder(
        block_out_channels=(32, 32, 32, 32),
        down_block_types=("DownEncoderBlock2D",) * 4,
        layers_per_block=1,
        sample_size=128,
        force_upcast=True,
    )
    enliven(vae)
    vae.save_pretrained(folder / "vae", variant="fp16")
    CLIPVisionModelWithProjection(
        CLIPVisionConfig(
            hidden_size=16,
            intermediate_size=32,
            projection_dim=width,
            num_hidden_layers=1,
            num_attention_heads=2,
            image_size=32,
            patch_size=16,
        )
    ).save_pretrained(folder / "image_encoder", variant="fp16")
    rename_variant(folder / "image_encoder")
    EulerDiscreteScheduler(**SCHEDULE).save_pretrained(folder / "scheduler")


def enliven(network: torch.nn.Module) -> None:
    """Gives a network larger weights than it begins with: what goes into it has to show in what comes out."""
    for tensor in network.parameters():
        if tensor.ndim > 1:
            torch.nn.init.normal_(tensor, std=1.5 / tensor[0].numel() ** 0.5)


def rename_variant(folder: Path) -> None:
    """Gives the weights the name under which they are published, where they were saved without it."""
    plain = folder / "model.safetensors"
    if plain.is_file():
        plain.rename(folder / "model.fp16.safetensors")


def write_whisper(folder: Path) -> None:
    """Writes a tiny Whisper with its reader of sound."""
    config = WhisperConfig(
        d_model=WHISPER["width"],
        encoder_layers=WHISPER["layers"],
        encoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_ffn_dim=16,
        vocab_size=64,
        num_mel_bins=80,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    WhisperModel(config).save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)


def write_dice_talk(weights: Path, code: Checkout, **unet: Any) -> None:
    """Writes what DICE-Talk trained, for the classes of `code`."""
    network = code.unet(**unet)
    network.save_config(weights / SVD / "unet")
    code.add_ip_adapters(network, [TOKENS, TOKENS], [1.0, 1.0])
    enliven(network)
    torch.save(network.state_dict(), weights / "DICE-Talk" / "unet.pth")
    width = network.config.cross_attention_dim
    hearing = code.audio_projection(
        seq_len=HEARD,
        blocks=WHISPER["layers"] + 1,
        channels=WHISPER["width"],
        intermediate_dim=PROJECTION_WIDTH,
        output_dim=width,
        context_tokens=TOKENS,
    )
    guider = code.pose_guider(
        conditioning_embedding_channels=network.config.block_out_channels[0], block_out_channels=GUIDER_CHANNELS
    )
    for tensor in guider.parameters():
        torch.nn.init.normal_(tensor, std=0.2)  # it begins with zeros, which would hide whether it is used
    torch.save(hearing.state_dict(), weights / "DICE-Talk" / "audio_linear.pth")
    feeling = code.emotion_model()
    enliven(feeling)
    torch.save(feeling.state_dict(), weights / "DICE-Talk" / "emo_model.pth")
    torch.save(guider.state_dict(), weights / "DICE-Talk" / "pose_guider.pth")
    flow = code.interpolator(device="cpu").flownet.state_dict()
    torch.save({f"module.{key}": value for key, value in flow.items()}, weights / "RIFE" / "flownet.pkl")


def write_priors(folder: Path) -> None:
    """Writes random priors as the checkout has them: pickles in numpy's format."""
    generator = np.random.default_rng(0)
    common = generator.normal(size=(1, priors.WIDTH)).astype(np.float32) * 0.8
    for name in priors.CLASSES:
        own = generator.normal(size=(1, priors.WIDTH)).astype(np.float32) * 0.4
        np.save(folder / f"{name}.npy", np.array({"mu": common + own}, object), allow_pickle=True)


def write_malicious(file: Path) -> None:
    """Writes a prior that runs a command when it is read without care."""

    class Malice:
        def __reduce__(self) -> Any:
            return (print, ("it was run",))

    header = b"\x93NUMPY\x01\x00"
    text = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }"
    text += b" " * (118 - len(text) - 1) + b"\n"
    file.write_bytes(header + len(text).to_bytes(2, "little") + text + pickle.dumps(Malice(), protocol=3))


def photograph() -> Portrait:
    """The portrait of one of the project's identities."""
    return Portrait("anna", decode_image(PORTRAIT.read_bytes(), "portrait"))


def settings_of(settings: Settings) -> dict[str, str]:
    """The settings as environment variables, without their prefix."""
    plain = settings.model_dump(mode="json")
    return {name.upper(): json.dumps(value) if isinstance(value, dict) else str(value) for name, value in plain.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new folder")
    for name, value in settings_of(write(parser.parse_args().folder)).items():
        print(f"export E3RG_VIDEO_{name}='{value}'")  # noqa: T201
