"""Embeds the stored messages anew: `python -m services.mllm.training.exemplar_vectors`.

Run it after every change of `exemplars.toml`; the back-end refuses vectors of another text.
"""

from pathlib import Path

from perception.text import SentenceReader
from services.mllm.reply.exemplars import embed_store


def main() -> None:
    """Writes `services/mllm/exemplars.npz`."""
    count = embed_store(SentenceReader(Path(".models")))
    print(f"exemplars.npz: {count} pairs")


if __name__ == "__main__":
    main()
