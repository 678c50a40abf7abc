"""Models whose own code runs on one version of transformers only."""

import transformers


def check_transformers(model: str, wanted: str) -> None:
    """Checks the library that a model's own code was written for; others fail in odd ways, or answer wrongly.

    Raises:
        ValueError: It is another one; the message names both.
    """
    if transformers.__version__ != wanted:
        problem = f"{model} needs transformers {wanted}, this is {transformers.__version__}"
        raise ValueError(f"{problem}; it has an image of its own")
