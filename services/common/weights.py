"""Says which weights a back-end loaded."""

import hashlib
from pathlib import Path


def digest_of(*paths: Path) -> str:
    """Returns the SHA-256 (hex) over the SHA-256 of each file, in the order given.

    Raises:
        FileNotFoundError: One of them is no file; the message names it.
    """
    total = hashlib.sha256()
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing; `make models` fetches the embedded models, other weights are yours"
            )
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()
