"""What the tests of this family need."""

import torch

torch.set_num_threads(1)
