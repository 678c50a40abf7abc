"""Loads DICE-Talk's networks from its own folder of weights, laid out as its README says."""

import logging
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLTemporalDecoder, EulerDiscreteScheduler
from safetensors.torch import load_file
from transformers import CLIPVisionModelWithProjection, WhisperFeatureExtractor, WhisperModel

from services.video.dice_talk.checkout import Checkout

log = logging.getLogger(__name__)

SVD = Path("stable-video-diffusion-img2vid-xt")
UNET = Path("DICE-Talk/unet.pth")
SVD_UNET = SVD / "unet" / "diffusion_pytorch_model.fp16.safetensors"
FILES = (
    UNET,
    Path("DICE-Talk/audio_linear.pth"),
    Path("DICE-Talk/emo_model.pth"),
    Path("DICE-Talk/pose_guider.pth"),
    Path("RIFE/flownet.pkl"),
    SVD / "image_encoder" / "model.fp16.safetensors",
    SVD / "vae" / "diffusion_pytorch_model.fp16.safetensors",
    SVD / "unet" / "config.json",
    SVD / "scheduler" / "scheduler_config.json",
    Path("whisper-tiny/model.safetensors"),
    Path("whisper-tiny/preprocessor_config.json"),
)
"""What has to be there. Its face detector is not needed, and Stable Video Diffusion's own U-Net only where DICE-Talk's
file leaves something to it."""
TOKENS = 32
"""Tokens that sound, and that emotion, are for a frame."""
HEARD = 10
"""Positions of Whisper, 20 ms each, that a frame hears."""
GUIDER_CHANNELS = (16, 32, 96, 256)
PROJECTION_WIDTH = 1024


@dataclass(frozen=True)
class Models:
    """The networks, on their device and ready to answer: none keeps what training would need.

    Classes as in `Checkout`, and three more.

    `unet`, `pose_guider`, `image_encoder` and the decoder of `vae` are of the type that was asked for; the encoder of
    `vae` is float32 (in float16 it overflows), as is whatever listens, feels or interpolates.
    """

    unet: Any
    pose_guider: Any
    audio_projection: Any
    emotion_model: Any
    interpolator: Any
    image_encoder: Any
    vae: Any
    whisper: Any
    """Whisper's encoder."""
    mel: WhisperFeatureExtractor
    schedule: Mapping[str, Any]
    """Configuration of the noise levels."""
    device: torch.device
    dtype: torch.dtype


def check_files(folder: Path) -> tuple[Path, ...]:
    """Returns the files of `FILES` in `folder`.

    Raises:
        FileNotFoundError: Some are not there; the message names them all.
    """
    lacking = [str(file) for file in FILES if not (folder / file).is_file()]
    if lacking:
        what = "E3RG_VIDEO_WEIGHTS is the folder that DICE-Talk's README calls `checkpoints`"
        raise FileNotFoundError(f"{folder} lacks {', '.join(lacking)}; {what}")
    return tuple(folder / file for file in FILES)


def load_models(checkout: Checkout, folder: Path, device: torch.device, dtype: torch.dtype) -> Models:
    """Loads everything, from `folder` alone.

    Raises:
        ValueError: A file lacks some of the tensors that its network has.
    """
    unet = _load_unet(checkout, folder)
    width = unet.config.cross_attention_dim
    whisper = WhisperModel.from_pretrained(folder / "whisper-tiny", local_files_only=True, dtype=torch.float32)
    audio_projection = checkout.audio_projection(
        seq_len=HEARD,
        blocks=whisper.config.encoder_layers + 1,
        channels=whisper.config.d_model,
        intermediate_dim=PROJECTION_WIDTH,
        output_dim=width,
        context_tokens=TOKENS,
    )
    emotion_model = checkout.emotion_model()
    pose_guider = checkout.pose_guider(
        conditioning_embedding_channels=unet.config.block_out_channels[0], block_out_channels=GUIDER_CHANNELS
    )
    interpolator = checkout.interpolator(device=device)
    _fill(audio_projection, folder / "DICE-Talk/audio_linear.pth")
    _fill(emotion_model, folder / "DICE-Talk/emo_model.pth", unused="classifier.")
    _fill(pose_guider, folder / "DICE-Talk/pose_guider.pth")
    _fill(interpolator.flownet, folder / "RIFE/flownet.pkl")
    image_encoder = CLIPVisionModelWithProjection.from_pretrained(
        folder / SVD / "image_encoder", variant="fp16", local_files_only=True, dtype=dtype
    )
    vae = AutoencoderKLTemporalDecoder.from_pretrained(
        folder / SVD / "vae", variant="fp16", local_files_only=True, low_cpu_mem_usage=False, torch_dtype=dtype
    )
    vae.encoder.float()
    vae.quant_conv.float()
    return Models(
        unet=_ready(unet, device, dtype),
        pose_guider=_ready(pose_guider, device, dtype),
        audio_projection=_ready(audio_projection, device, torch.float32),
        emotion_model=_ready(emotion_model, device, torch.float32),
        interpolator=_frozen(interpolator),
        image_encoder=_ready(image_encoder, device, dtype),
        vae=vae.to(device).eval().requires_grad_(False),
        whisper=_ready(whisper.get_encoder(), device, torch.float32),
        mel=WhisperFeatureExtractor.from_pretrained(folder / "whisper-tiny", local_files_only=True),
        schedule=EulerDiscreteScheduler.load_config(folder / SVD / "scheduler", local_files_only=True),
        device=device,
        dtype=dtype,
    )


def _load_unet(checkout: Checkout, folder: Path) -> Any:
    """Loads Stable Video Diffusion's U-Net as DICE-Talk changed it, without ever holding it twice."""
    with torch.device("meta"):
        unet = checkout.unet.from_config(checkout.unet.load_config(folder / SVD / "unet"))
        checkout.add_ip_adapters(unet, [TOKENS, TOKENS], [1.0, 1.0])
    state = _read(folder / UNET)
    if set(unet.state_dict()) - set(state) and (folder / SVD_UNET).is_file():
        log.info("%s leaves some tensors as Stable Video Diffusion has them; they come from %s", UNET, SVD_UNET)
        state = {**load_file(folder / SVD_UNET), **state}
    _assign(unet, state, folder / UNET, "", assign=True)
    return unet


def _fill(module: Any, file: Path, unused: str = "") -> None:
    _assign(module, _read(file), file, unused, assign=False)


def _assign(module: Any, state: Mapping[str, torch.Tensor], file: Path, unused: str, assign: bool) -> None:
    """Fills `module`; tensors whose names begin with `unused` may be missing.

    Raises:
        ValueError: Others are missing: a silent miss would render noise.
    """
    loaded = module.load_state_dict(state, strict=False, assign=assign)
    missing = [key for key in loaded.missing_keys if not (unused and key.startswith(unused))]
    if missing:
        problem = f"{len(missing)} tensors of {type(module).__name__}, the first {missing[0]}"
        raise ValueError(f"{file} lacks {problem}; take the file that belongs to the checkout")
    if loaded.unexpected_keys:
        log.warning(
            "%s: %d tensors are not used, the first %s", file, len(loaded.unexpected_keys), loaded.unexpected_keys[0]
        )


def _read(file: Path) -> dict[str, torch.Tensor]:
    """Reads a file of tensors; nothing in it is run."""
    read = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    # Those that were saved while they were trained on several GPUs have one more word in front.
    return {key.removeprefix("module."): value for key, value in read.items()}


def _ready(module: Any, device: torch.device, dtype: torch.dtype) -> Any:
    # PyTorch's own `to`: that of diffusers logs a warning about layers that none of these has.
    return torch.nn.Module.to(module, device=device, dtype=dtype).eval().requires_grad_(False)


def _frozen(interpolator: Any) -> Any:
    interpolator.flownet.eval().requires_grad_(False)
    return interpolator
