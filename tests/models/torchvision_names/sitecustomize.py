"""Lets torchvision's Python part be imported beside a CPU build of PyTorch.

The registry's torchvision is built for CUDA; beside PyTorch for the CPU its compiled part cannot be loaded, and then
its import fails over the names of two operators, which nothing here calls. Frames are prepared by its Python part.
Where both are of one build this does nothing. Python runs this file at start when its folder is on PYTHONPATH.
"""

from importlib.metadata import version

import torch

if torch.version.cuda is None and "+cpu" not in version("torchvision"):
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
