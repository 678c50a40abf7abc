"""Frames that a model reads as one clip."""

from collections.abc import Sequence

from services.common.errors import InvalidRequest
from services.mllm.domain import Frame


def check_one_size(frames: Sequence[Frame]) -> None:
    """Checks that the frames are of one size.

    Raises:
        InvalidRequest: They are not; the message names the sizes.
    """
    sizes = {frame.image.shape for frame in frames}
    if len(sizes) > 1:
        found = " and ".join(f"{width} x {height}" for height, width, _ in sorted(sizes))
        raise InvalidRequest("frame.jpeg", f"frames of {found} pixels; send frames of one size")
