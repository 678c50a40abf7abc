"""Packs the model folder into wheels again, so that a cluster without a network gets its weights from a mirror."""

import sys
import zipfile
from pathlib import Path

from models.fetch import Manifest


def pack(models: Path, folder: Path) -> None:
    """Write one wheel for each package of the manifest's files that everybody gets.

    Args:
        models: The model folder, as `make models` fills it.
        folder: Where to write the wheels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    members: dict[tuple[str, str], dict[str, Path]] = {}
    for file in Manifest.load().chosen():
        (part,) = file.parts
        members.setdefault((part.package, part.version), {})[part.member] = models / file.path
    for (package, version), paths in members.items():
        with zipfile.ZipFile(folder / f"{package.replace('-', '_')}-{version}-py3-none-any.whl", "w") as wheel:
            for member, path in paths.items():
                wheel.write(path, member)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
