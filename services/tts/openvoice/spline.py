"""The inverse of a monotonic rational-quadratic spline (Durkan et al., 2019, "Neural Spline Flows", section 3)."""

import torch
from torch import Tensor
from torch.nn import functional

BOUND = 5.0
"""Within ± this the spline bends; outside it is the identity."""
LEAST = 1e-3
"""Least width and height (as a share of the whole) and least slope of a bin."""


def inverse(values: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor) -> Tensor:
    """Returns the places whose images under the spline are `values`.

    Args:
        values: (…).
        widths: Of the K bins, before their softmax: (…, K).
        heights: Likewise.
        slopes: At the K - 1 knots between bins, before their softplus; at both ends it is 1.
    """
    x, y = _knots(widths), _knots(heights)
    slope = functional.pad(LEAST + functional.softplus(slopes), (1, 1), value=1.0)
    inside = values.clamp(-BOUND, BOUND)
    place = (inside[..., None] >= y[..., 1:-1]).sum(-1, keepdim=True)
    x_low, y_low, low, high = (_at(knots, place) for knots in (x, y, slope, slope[..., 1:]))
    width, height = _at(x.diff(), place), _at(y.diff(), place)
    mean = height / width
    # The share of the bin's width solves a quadratic equation (their equations 6 to 8).
    risen = inside - y_low
    bend = low + high - 2 * mean
    a = height * (mean - low) + risen * bend
    b = height * low - risen * bend
    c = -mean * risen
    share = 2 * c / (-b - (b.square() - 4 * a * c).clamp_min(0).sqrt())
    return torch.where(values.abs() <= BOUND, x_low + share * width, values)


def _knots(sizes: Tensor) -> Tensor:
    """Edges of the bins, -BOUND to BOUND: (…, K) to (…, K + 1)."""
    shares = LEAST + (1 - LEAST * sizes.shape[-1]) * torch.softmax(sizes, dim=-1)
    edges = 2 * BOUND * functional.pad(shares.cumsum(-1), (1, 0)) - BOUND
    # Sums of shares end near 1; the last edge is exactly the bound.
    return torch.cat([edges[..., :-1], torch.full_like(edges[..., -1:], BOUND)], dim=-1)


def _at(values: Tensor, place: Tensor) -> Tensor:
    return values.gather(-1, place)[..., 0]
