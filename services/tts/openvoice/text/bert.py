"""What BERT knows of the words of a sentence: MeloTTS reads it besides the phonemes."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

LAYERS_UNREAD = 2
"""Features are the output of the third layer from the end, so that the last two need not be run."""


def files(folder: Path) -> list[Path]:
    """Returns the files of a BERT that decide what it says: configuration, words and weights."""
    wanted = ("config.json", "tokenizer.json", "vocab.txt", "*.safetensors", "pytorch_model*.bin")
    return sorted(path for pattern in wanted for path in folder.glob(pattern))


class WordFeatures:
    """A BERT and its tokenizer from a local folder.

    Args:
        folder: Of a BERT as transformers saves it.
        device: Where it runs.
        dtype: What it computes in.

    Raises:
        FileNotFoundError: The folder has no model.
        PermissionError: A file of it may not be read.
    """

    def __init__(self, folder: Path, device: str, dtype: torch.dtype) -> None:
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(
                f"{folder / 'config.json'} is missing; give the folder of a BERT as transformers saves it"
            )
        for file in files(folder):
            file.open("rb").close()  # transformers says that a file is missing when it may not be read
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModel.from_pretrained(folder, local_files_only=True, add_pooling_layer=False)
        layers = model.encoder.layer
        model.encoder.layer = layers[: len(layers) - LAYERS_UNREAD]
        self._model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
        self.width = int(model.config.hidden_size)

    def pieces(self, text: str) -> list[str]:
        """Returns the word pieces of a text; those that go on begin with "##"."""
        found: list[str] = self._tokenizer.tokenize(text)
        return found

    def of(self, texts: Sequence[str], counts: Sequence[Sequence[int]], length: int) -> Tensor:
        """Returns the features of sentences, symbol by symbol.

        Args:
            texts: The sentences.
            counts: For each how many symbols each word piece has, BERT's own marks at both ends included.
            length: To which the rows are padded with zeros.

        Returns:
            float32 (B, width, length).
        """
        given = self._tokenizer(list(texts), return_tensors="pt", padding=True).to(self._model.device)
        hidden = self._model(**given).last_hidden_state.float()
        features = torch.zeros(len(texts), self.width, length, device=hidden.device)
        for row, symbols in enumerate(counts):
            repeats = torch.tensor(symbols, device=hidden.device)
            spread = hidden[row, : len(symbols)].repeat_interleave(repeats, dim=0)
            features[row, :, : len(spread)] = spread.T
        return features
