"""Prints the `[prior]` of a vote prompt: `python -m services.mllm.training.vote_prior vote-1`.

The mean log-likelihood of each label over the stored messages; run it after a change of the prompt.
"""

import argparse
from pathlib import Path

import numpy as np

import emotions
from services.mllm.backends.smollm2 import WEIGHTS
from services.mllm.language.model import LanguageModel
from services.mllm.language.vote import VotePrompt, label_pieces
from services.mllm.reply.exemplars import Exemplars

PAIRS_PER_LABEL = 5


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", help="name of a file of services/mllm/prompts")
    parser.add_argument("--models", type=Path, default=Path(".models"), help="the model folder")
    arguments = parser.parse_args()
    weights = arguments.models / WEIGHTS
    model = LanguageModel(weights, context_tokens=1024)
    prompt, labels = VotePrompt.load(arguments.prompt), tuple(emotions.load().labels)
    pairs = Exemplars().pairs
    messages = [pair.message for label in labels for pair in [p for p in pairs if p.label == label][:PAIRS_PER_LABEL]]
    pieces = label_pieces(prompt, labels)
    rows = np.array([model.likelihoods(prompt.text(message, prompt.shots), pieces) for message in messages])
    model.close()
    for label, mean in zip(labels, rows.mean(axis=0), strict=True):
        print(f"{label} = {mean:.3f}")


if __name__ == "__main__":
    main()
