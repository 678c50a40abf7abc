"""Times work on a device that is given its work long before it does it."""

import time

import torch


def now_s(device: torch.device) -> float:
    """Waits until the device has done all that it was given; returns the time, in seconds from an arbitrary point."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
