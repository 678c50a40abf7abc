"""Runs the back-end on DICE-Talk's own code with tiny random weights, beside DICE-Talk's own pipeline.

    python -m tests.models.dice_talk.against_upstream --checkout FOLDER

FOLDER is a checkout of DICE-Talk's code. Both get the same weights, portrait, speech, prior and noise; what the U-Net
is given and answers in each call is compared, and what comes of it. Needs `make models`, and some minutes on a CPU.
"""

import argparse
import importlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from diffusers import EulerDiscreteScheduler
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional
from transformers import CLIPImageProcessor

from perception.face import FaceReader
from services.video import framing
from services.video.backends.dice_talk import SIZE_PX, DiceTalkBackend
from services.video.dice_talk.audio import RATE_HZ
from services.video.dice_talk.decoding import CHUNK_MAX, Decoder
from services.video.dice_talk.denoising import EXPRESSION_SCALE, REFERENCE_SCALE, TIME_IDS, noise_of
from services.video.dice_talk.identity import Identity
from services.video.dice_talk.models import HEARD, Models
from services.video.dice_talk.priors import FILE, convert
from services.video.dice_talk.tiers import Tier
from services.video.dice_talk.windows import SHIFT, WINDOW
from services.video.domain import Expression, Progress, Speech
from tests.models.dice_talk.tiny import ROOT, photograph, write
from tests.models.dice_talk.watching import watching

TINY = {
    "block_out_channels": (32, 64, 64, 64),
    "num_attention_heads": (1, 2, 2, 2),
    "cross_attention_dim": 1024,
    "addition_time_embed_dim": 32,
    "projection_class_embeddings_input_dim": 96,
    "layers_per_block": 1,
    "in_channels": 8,
}
STEPS, SIDE, RENDERED = 3, 128, 30
SEED, EMOTION = 11, "angry"
TOLERANCE = 1e-4
CHANGE_MIN = 0.1
"""Of 255 shades: what an emotion changes at least, with random weights that know none."""


def speech() -> NDArray[np.int16]:
    """Noise that swells and fades; as long as the rendered frames."""
    count = RENDERED * 2 * RATE_HZ // 25
    swell = 3000 * (1 + np.sin(np.arange(count) / 2500))
    samples = np.random.default_rng(5).normal(size=count) * swell
    return np.asarray(samples.clip(-32768, 32767), np.int16)


def differ(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, as a part of the largest value."""
    assert one.shape == other.shape, (one.shape, other.shape)
    return float((one - other).abs().max() / other.abs().max())


def heard_frame_by_frame(models: Models) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What DICE-Talk's script makes of the speech: a frame at a time, with silence once more for each."""
    wave = speech().astype(np.float32) / 32768
    mel = models.mel(wave, sampling_rate=RATE_HZ, return_tensors="pt").input_features
    layers = torch.stack(models.whisper(mel, output_hidden_states=True).hidden_states, 2)
    # Two positions for each 25th of a second of speech, with room for the first and the last frame's surroundings.
    padded = functional.pad(layers.narrow(1, 0, len(wave) // 640 * 2), (0, 0, 0, 0, 4, 6))
    silence = padded.new_zeros(1, 1, HEARD, *padded.shape[2:])
    told, quiet = [], []
    for frame in range(RENDERED):
        told.append(models.audio_projection(padded.narrow(1, 4 * frame, HEARD)[:, None])[0, 0])
        quiet.append(models.audio_projection(silence)[0, 0])
    return told, quiet


def felt_frame_by_frame(models: Models, prior: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What DICE-Talk's script makes of the emotion: the same tensors for each frame."""
    asked = prior.view(1, 1, 1, 1, -1)
    told = [models.emotion_model(asked, retrieval=False)[0][0, 0]] * RENDERED
    return told, [models.emotion_model(torch.zeros_like(asked), retrieval=False)[0][0, 0]] * RENDERED


@torch.no_grad()  # type: ignore[untyped-decorator]
def theirs(backend: DiceTalkBackend, rig: Identity, picture: Image.Image) -> torch.Tensor:
    """Returns the pictures, (3, frames, side, side), of DICE-Talk's own pipeline.

    Its script cannot be run: it is written for CUDA, and reads and writes files.
    """
    models = backend.renderer.models
    pipeline = importlib.import_module("src.pipelines.pipeline_dicetalk").DicePipeline(
        vae=models.vae,
        image_encoder=models.image_encoder,
        unet=models.unet,
        pose_guider=models.pose_guider,
        scheduler=EulerDiscreteScheduler.from_config(models.schedule),
    )
    pipeline.set_progress_bar_config(disable=True)
    size = models.image_encoder.config.image_size
    processor = CLIPImageProcessor(size={"shortest_edge": size}, crop_size={"height": size, "width": size})
    seen = processor(picture.resize((size, size), Image.Resampling.LANCZOS), return_tensors="pt").pixel_values
    pixels = torch.from_numpy(np.array(picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS))).permute(2, 0, 1)
    told, untold = heard_frame_by_frame(models)
    felt, unfelt = felt_frame_by_frame(models, backend.priors[EMOTION])
    film: torch.Tensor = pipeline(
        (pixels / 255 - 0.5)[None] / 0.5,
        seen,
        [rig.views[SIDE].mask[0].expand(3, -1, -1)] * RENDERED,
        told,
        untold,
        felt,
        unfelt,
        height=SIDE,
        width=SIDE,
        num_frames=RENDERED,
        num_inference_steps=STEPS,
        min_guidance_scale1=REFERENCE_SCALE,
        max_guidance_scale1=REFERENCE_SCALE,
        min_guidance_scale2=EXPRESSION_SCALE,
        max_guidance_scale2=EXPRESSION_SCALE,
        fps=TIME_IDS[0],
        motion_bucket_id=TIME_IDS[1],
        motion_bucket_id_exp=TIME_IDS[2],
        noise_aug_strength=0.0,
        decode_chunk_size=CHUNK_MAX,
        latents=noise_of(SEED, RENDERED + WINDOW, tuple(rig.views[SIDE].latents.shape))[None],
        output_type="pt",
        overlap=0,
        shift_offset=SHIFT,
        frames_per_batch=WINDOW,
    ).frames[0]
    return film


def ours(backend: DiceTalkBackend, rig: Identity) -> torch.Tensor:
    """Denoises the same frames, with as many idle ones behind them as DICE-Talk's pipeline has."""
    scene = backend.renderer.scene(rig, Expression(EMOTION, 1.0), speech(), RATE_HZ, backend.tiers["best"])
    scene = replace(scene, audio=scene.audio[:RENDERED], padding=WINDOW)
    *_, last = backend.renderer.denoiser.denoise(scene, STEPS, SEED)
    return last.latents


def compare(backend: DiceTalkBackend, checkout: Path) -> Iterator[tuple[str, float]]:
    """Yields what was compared, and by how much it differs."""
    models = backend.renderer.models
    for name, prior in backend.priors.items():
        pickled = np.load(checkout / "examples" / "emo" / f"{name}.npy", allow_pickle=True).item()["mu"][0]
        yield f"prior of {name}", differ(prior, torch.from_numpy(pickled))
    portrait = photograph()
    rig = backend.prepare(portrait)
    picture = Image.fromarray(framing.frame(portrait.image, FaceReader(ROOT / ".models"), SIZE_PX).image)
    scene = backend.renderer.scene(rig, Expression(EMOTION, 1.0), speech(), RATE_HZ, backend.tiers["best"])
    told, untold = heard_frame_by_frame(models)
    yield "tokens of the sound, in a batch against frame by frame", differ(scene.audio[:RENDERED], torch.stack(told))
    yield "tokens of silence", differ(scene.silence, untold[0])
    felt, unfelt = felt_frame_by_frame(models, backend.priors[EMOTION])
    yield "tokens of the emotion", differ(scene.emotion, felt[0])
    yield "tokens of no emotion", differ(scene.no_emotion, unfelt[0])
    with watching(models.unet) as mine:
        latents = ours(backend, rig)
    with watching(models.unet) as others, watching(models.vae.decoder) as decoded:
        film = theirs(backend, rig, picture).permute(1, 0, 2, 3) * 0.5 + 0.5
    assert len(mine) == len(others) == STEPS * 3, (len(mine), len(others))
    for number, (one, other) in enumerate(zip(mine, others, strict=True)):
        yield f"call {number} of the U-Net, given", differ(one.positional[0], other.positional[0])
        yield f"call {number} of the U-Net, answered", differ(one.answer[0], other.answer[0])
    reference = torch.cat([call.positional[0] for call in decoded]) * models.vae.config.scaling_factor
    yield "latents", differ(latents, reference)
    shown = film.clamp(0, 1)
    assert float(shown.std()) > 0.01, "the pictures are empty"
    between = [models.interpolator.inference(shown[n : n + 1], shown[n + 1 : n + 2]) for n in range(RENDERED - 1)]
    whole = torch.stack([shown[:-1], torch.cat(between).clamp(0, 1)], 1).flatten(0, 1)
    whole = torch.cat([whole, shown[-1:]])
    parts = Decoder(models, SIDE).decode(latents[:RENDERED], interpolated=True)
    frames = np.stack([frame for part in parts for frame in part.frames])
    shades = (torch.from_numpy(frames).permute(0, 3, 1, 2) - whole * 255).abs().max()
    yield "pictures, beyond the rounding to 255 shades", float(shades - 0.5) / 255


def act(backend: DiceTalkBackend) -> None:
    """Plays a segment of each emotion as a servicer would, and prints what came."""
    rig = backend.prepare(photograph())
    films = {}
    for name in ("neutral", EMOTION):
        playing = backend.perform(rig, Expression(name, 1.0), SEED, "best")
        list(playing.feed(Speech(speech()[: RATE_HZ // 2], RATE_HZ, ())))
        with watching(backend.renderer.models.unet) as calls:
            films[name] = np.stack([part for part in playing.finish() if not isinstance(part, Progress)])
        print(f"{name}: {len(calls)} calls of the U-Net, {len(films[name])} frames of {films[name].shape[1:]}")  # noqa: T201
    change = float(np.abs(films["neutral"].astype(int) - films[EMOTION]).mean())
    print(f"{EMOTION} differs from neutral by {change:.2f} of 255 shades on average, at least {CHANGE_MIN} wanted")  # noqa: T201
    assert change >= CHANGE_MIN


def main() -> None:
    """Compares, prints, and fails when something differs by more than `TOLERANCE`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True)
    checkout: Path = parser.parse_args().checkout
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = write(Path(folder), checkout, **TINY)
        convert(checkout / "examples" / "emo", settings.weights / FILE)
        tier = Tier(steps=STEPS, side_px=SIDE, interpolated=True)
        backend = DiceTalkBackend(settings.model_copy(update={"tiers": {"best": tier}}))
        differences = []
        for what, difference in compare(backend, checkout):
            print(f"{difference:9.1e}  {what}")  # noqa: T201
            differences.append(difference)
        act(backend)
    print(f"worst {np.max(differences):.1e}, allowed {TOLERANCE:.0e}")  # noqa: T201
    # What is not a number is no equality.
    sys.exit(not all(difference <= TOLERANCE for difference in differences))


if __name__ == "__main__":
    main()
