"""Rows of different lengths in one batch: what lies behind a row's end is kept at zero, as if the row were alone."""

from typing import Any

import torch
from torch import Tensor


def mask_of(lengths: Tensor, length: int, like: Tensor) -> Tensor | None:
    """Returns 1 up to each row's length and 0 behind it.

    Args:
        lengths: int64 (B,), on the CPU.
        length: Of the padded rows.
        like: Device and type of the mask.

    Returns:
        (B, 1, length); None where every row is full, so that nothing is multiplied by ones.
    """
    if int(lengths.min()) >= length:
        return None
    inside = torch.arange(length)[None] < lengths[:, None]
    return inside[:, None].to(like.device, like.dtype)


def masked(values: Tensor, mask: Tensor | None) -> Tensor:
    """Returns `values` (B, C, T) with what lies behind the rows' ends set to zero."""
    return values if mask is None else values * mask


def check_lengths(name: str, lengths: Tensor, rows: int, longest: int, least: int) -> Tensor:
    """Returns `lengths` on the CPU after checking that they fit the batch.

    Raises:
        ValueError: They do not; the message names `name`.
    """
    known: Any = lengths.to("cpu", torch.int64)
    if known.shape != (rows,) or int(known.min()) < least or int(known.max()) > longest:
        raise ValueError(f"{name}: lengths {known.tolist()}; send {rows} of {least} to {longest}")
    return known
