"""Which frames are denoised together.

DICE-Talk's U-Net sees 25 frames at once. A film is denoised in windows side by side; from step to step they begin seven
frames earlier, so that no seam stays where it was, and they go round in a circle: the last frame is followed by the
first. (The same shift and circle as the checkout's own pipeline.)
"""

from typing import Final

import torch

WINDOW: Final = 25
SHIFT: Final = 7


def padding(frames: int) -> int:
    """Returns how many idle frames follow `frames`, so that the circle does not join the film's end to its beginning.

    The least with which no window, wherever it begins, holds frames of both: one window less one frame. Rounded up to
    whole windows, where each frame is denoised exactly once a step. DICE-Talk's own pipeline takes 25 and lets windows
    overlap; it never needs fewer calls.
    """
    return -(-(frames + WINDOW - 1) // WINDOW) * WINDOW - frames


def windows(total: int, step: int) -> torch.Tensor:
    """Returns int64 (windows, 25): the frames of each window at a step, of `total` frames with the padding.

    Where `total` is no multiple of 25, some frames are in two windows.
    """
    shift = step * SHIFT % WINDOW
    starts = torch.arange(0, total, WINDOW) - shift
    return (starts[:, None] + torch.arange(WINDOW)) % total


def count(frames: int) -> int:
    """Returns the windows of a step, that is the calls of the U-Net, for so many frames and their padding."""
    return (frames + padding(frames)) // WINDOW
