"""What the tests of this family need."""

import os

# Where transformers copies the code beside a model's weights to, and imports it from.
os.environ["HF_MODULES_CACHE"] = ".run/model-code"

import torch

torch.set_num_threads(1)
