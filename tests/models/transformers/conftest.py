"""What the tests of the models of current transformers need."""

import torch

from tests.models.torchvision_names import sitecustomize  # noqa: F401  # before transformers is imported

torch.set_num_threads(1)
