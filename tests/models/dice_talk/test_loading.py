"""What DICE-Talk is loaded from, and what it refuses to be loaded from."""

import gc
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

import emotions
from services.video.backends.dice_talk import DiceTalkBackend, Settings
from services.video.dice_talk import priors
from services.video.dice_talk.checkout import open_checkout
from services.video.dice_talk.identity import Identity
from services.video.dice_talk.models import SVD_UNET, UNET, check_files
from services.video.dice_talk.tiers import TIERS
from services.video.domain import Portrait, Segments
from tests.models.dice_talk.playing import noise, play
from tests.models.dice_talk.tiny import ROOT, STANDIN, write_malicious
from tests.models.dice_talk.watching import SCHEDULE_WARNS

pytestmark = SCHEDULE_WARNS


def test_it_loads_from_the_paths_of_the_settings(backend: DiceTalkBackend) -> None:
    assert backend.model == "DICE-Talk"
    assert len(backend.digest) == 64
    assert (backend.fps, backend.size_px) == (25, 512)
    assert backend.qualities == ("best", "good", "draft")
    assert backend.segments == Segments(first_s=0.5, min_s=1.0, max_s=4.0, window_s=2.0)
    assert set(backend.classes) == set(emotions.load().classes)


def test_the_large_networks_are_of_the_type_that_was_asked_for(settings: Settings) -> None:
    models = DiceTalkBackend(settings.model_copy(update={"dtype": "bfloat16"})).renderer.models
    for network in (models.unet, models.pose_guider, models.image_encoder, models.vae.decoder):
        assert {tensor.dtype for tensor in network.parameters()} == {torch.bfloat16}
    for network in (models.vae.encoder, models.whisper, models.audio_projection, models.emotion_model):
        assert {tensor.dtype for tensor in network.parameters()} == {torch.float32}


def test_a_back_end_that_is_closed_lets_its_networks_go_and_may_be_closed_again(settings: Settings) -> None:
    backend = DiceTalkBackend(settings)
    unet = weakref.ref(backend.renderer.models.unet)
    backend.close()
    backend.close()
    gc.collect()
    assert unet() is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_half_precision_it_renders_nearly_the_same(
    settings: Settings, backend: DiceTalkBackend, portrait: Portrait, rig: Identity, dtype: str
) -> None:
    half = DiceTalkBackend(settings.model_copy(update={"dtype": dtype}))
    exact = play(backend, rig, noise(0.08)).film
    rough = play(half, half.prepare(portrait), noise(0.08)).film
    other = play(backend, rig, noise(0.08), seed=2).film
    assert np.abs(rough - exact).mean() < 0.2 * np.abs(other - exact).mean()


def drawn() -> NDArray[np.uint32]:
    """The state of numpy's own generator, which everything in a process shares."""
    state = np.random.get_state(legacy=False)
    assert isinstance(state, dict)
    return np.asarray(state["state"]["key"])


def test_nothing_outside_is_changed(backend: DiceTalkBackend, portrait: Portrait, settings: Settings) -> None:
    before = torch.get_rng_state(), drawn(), list(sys.path), settings.model_dump()
    play(backend, backend.prepare(portrait), noise(0.2), seed=77)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(drawn(), before[1])
    assert list(sys.path) == before[2]
    assert settings.model_dump() == before[3]
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


@pytest.fixture
def copied(settings: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(settings.weights, tmp_path / "weights")
    return settings.model_copy(update={"weights": tmp_path / "weights"})


def without(file: Path, *keys: str) -> dict[str, torch.Tensor]:
    """Takes tensors out of a file; returns them."""
    state = torch.load(file, weights_only=True)
    taken = {key: state.pop(key) for key in keys}
    torch.save(state, file)
    return taken


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("DICE-Talk/unet.pth", "space.processor.to_k_ip.1.weight"),
        ("DICE-Talk/unet.pth", "conv_in.weight"),
        ("DICE-Talk/audio_linear.pth", "say.bias"),
        ("DICE-Talk/emo_model.pth", "bank.weight"),
        ("DICE-Talk/pose_guider.pth", "outer.weight"),
    ],
)
def test_a_tensor_that_is_missing_is_named(copied: Settings, file: str, key: str) -> None:
    without(copied.weights / file, key)
    with pytest.raises(ValueError, match=rf"{file} lacks 1 tensors of \w+, the first {key}; take the file that"):
        DiceTalkBackend(copied)


def test_the_classifier_that_only_training_needs_may_be_missing(copied: Settings) -> None:
    without(copied.weights / "DICE-Talk/emo_model.pth", "classifier.weight", "classifier.bias")
    DiceTalkBackend(copied)


def test_what_the_file_leaves_to_stable_video_diffusion_comes_from_there(
    copied: Settings, backend: DiceTalkBackend
) -> None:
    taken = without(copied.weights / UNET, "conv_in.weight", "conv_in.bias")
    save_file({**taken, "conv_out.bias": torch.full((4,), 9.0)}, copied.weights / SVD_UNET)
    loaded = DiceTalkBackend(copied).renderer.models.unet.state_dict()
    assert all(torch.equal(loaded[key], tensor) for key, tensor in backend.renderer.models.unet.state_dict().items())


def test_a_tensor_that_is_not_used_is_told(copied: Settings, caplog: pytest.LogCaptureFixture) -> None:
    file = copied.weights / "DICE-Talk/pose_guider.pth"
    torch.save({**torch.load(file, weights_only=True), "spare": torch.zeros(1)}, file)
    DiceTalkBackend(copied)
    assert f"{file}: 1 tensors are not used, the first spare" in caplog.text


def test_weights_that_are_missing_are_named_all_at_once(copied: Settings) -> None:
    (copied.weights / UNET).unlink()
    (copied.weights / "RIFE/flownet.pkl").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks DICE-Talk/unet.pth, RIFE/flownet.pkl; E3RG_VIDEO_WEIGHTS is"):
        check_files(copied.weights)


def test_a_checkout_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="E3RG_VIDEO_CHECKOUT is a checkout of DICE-Talk's code"):
        open_checkout(tmp_path)


def test_two_checkouts_are_not_mixed(backend: DiceTalkBackend, tmp_path: Path) -> None:
    shutil.copytree(STANDIN, tmp_path / "other")
    with pytest.raises(ValueError, match=r"src is \['.*standin/src'\] here already, not .*other/src"):
        open_checkout(tmp_path / "other")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"segment_min_s": 9}, "segment_min_s is 9, above segment_max_s, 4"),
        ({"segment_first_s": 1.5}, "segment_first_s is 1.5, above segment_min_s, 1"),
        ({"segment_max_s": 31}, "less than or equal to 30"),
        ({"tiers": {}}, "at least 1 item"),
        ({"tiers": {"best": {"steps": 25, "side_px": 500, "interpolated": True}}}, "multiple of 64"),
        ({"dtype": "int8"}, "'float16', 'bfloat16' or 'float32'"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: Settings, wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Settings(**{**settings.model_dump(), **wrong})


def test_checkout_and_weights_are_all_that_must_be_set(settings: Settings) -> None:
    assert Settings(checkout=settings.checkout, weights=settings.weights).tiers == TIERS


# The priors


def test_priors_are_converted_once_and_read_without_pickles(settings: Settings, tmp_path: Path) -> None:
    folder = settings.weights.parent / "emo"
    command = [sys.executable, "-m", "services.video.dice_talk.priors", str(folder), str(tmp_path / "to.safetensors")]
    subprocess.run(command, check=True, cwd=ROOT)
    converted = priors.read(tmp_path / "to.safetensors")
    assert set(converted) == set(priors.CLASSES)
    for name, prior in converted.items():
        original = np.load(folder / f"{name}.npy", allow_pickle=True).item()["mu"]
        assert np.array_equal(prior.numpy(), original[0])


def test_a_pickle_that_wants_to_run_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_malicious(tmp_path / "happy.npy")
    with pytest.raises(Exception, match=r"builtins\.print is asked for; only arrays of numpy are rebuilt"):
        priors.read_pickled(tmp_path / "happy.npy")
    np.load(tmp_path / "happy.npy", allow_pickle=True)
    assert capsys.readouterr().out == "it was run\n"  # by the second reader, which trusts it


def test_a_prior_of_another_kind_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.zeros(256, np.float32))
    with pytest.raises(ValueError, match="holds float32; a prior is a dict in an array of one object"):
        priors.read_pickled(tmp_path / "numbers.npy")
    np.save(tmp_path / "short.npy", np.array({"mu": np.zeros((1, 8), np.float32)}, object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"holds \(1, 8\); a prior is 256 finite numbers"):
        priors.read_pickled(tmp_path / "short.npy")


def test_priors_that_are_missing_are_named_with_the_remedy(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"python -m services\.video\.dice_talk\.priors CHECKOUT/examples/emo"):
        priors.read(tmp_path / "none.safetensors")
    some = {name: prior for name, prior in load_file(settings.weights / priors.FILE).items() if name != "contempt"}
    save_file(some, tmp_path / "some.safetensors")
    with pytest.raises(ValueError, match="has no contempt of 256 numbers"):
        priors.read(tmp_path / "some.safetensors")
