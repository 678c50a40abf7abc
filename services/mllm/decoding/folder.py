"""A model's folder as transformers saves it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.common.weights import digest_of


def digest_of_folder(folder: Path) -> str:
    """Returns the digest of all weight files in `folder`, in order of their names.

    Raises:
        FileNotFoundError: It is no folder of a model; the message says what is missing.
    """
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"{folder} has no config.json; E3RG_MLLM_WEIGHTS is the folder of a model as transformers saves it"
        )
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    if not files:
        raise FileNotFoundError(f"{folder} has no weights: neither *.safetensors nor *.bin")
    return digest_of(*files)


def check_complete(loaded: Mapping[str, Any], folder: Path) -> None:
    """Checks that every weight came out of the folder: transformers makes up those that are missing, at random.

    Args:
        loaded: What `from_pretrained(output_loading_info=True)` tells.
        folder: Named in the error.

    Raises:
        ValueError: Weights are missing or of another shape; the message names some.
    """
    wrong = sorted(str(key) for kind in ("missing_keys", "mismatched_keys") for key in loaded[kind])
    if wrong:
        names = ", ".join(wrong[:3])
        raise ValueError(f"{folder} lacks {len(wrong)} of the model's weights or has them in another shape: {names}")
