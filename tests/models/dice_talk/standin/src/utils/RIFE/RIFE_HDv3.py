"""The frame between two."""

import torch


class RIFEModel:
    """Blends two frames, each pixel by what is around it."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.flownet = torch.nn.Conv2d(6, 3, 3, padding=1).to(device)

    def inference(self, img0: torch.Tensor, img1: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        """Both (batch, 3, height, width) between 0 and 1."""
        share = torch.sigmoid(self.flownet(torch.cat([img0, img1], 1)) / scale)
        return img0 * share + img1 * (1 - share)
