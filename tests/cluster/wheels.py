"""Packs the model folder into wheels again, so that a cluster without a network gets its weights from a mirror."""

import os
import sys
import zipfile
from pathlib import Path

from models.fetch import Manifest, Part

OPTIONAL = ("kokoro",)
"""Optional models that tests run; `make test-cluster` fetches them."""


def pack(models: Path, folder: Path) -> None:
    """Write one wheel for each package of the manifest's files that everybody gets, and of the optional ones.

    Args:
        models: The model folder, as `make models` fills it.
        folder: Where to write the wheels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    members: dict[tuple[str, str], dict[str, Path]] = {}
    archives: dict[tuple[Part, ...], Path] = {}
    for file in Manifest.load().chosen(OPTIONAL):
        whole = models / file.path
        if file.archive_member:
            whole = archives.setdefault(file.parts, folder / f"{len(archives)}.zip")
            with zipfile.ZipFile(whole, "a") as archive:
                archive.write(models / file.path, file.archive_member)
        for number, part in enumerate(file.parts):
            # A file of several parts lies whole in the first; the others are empty.
            source = Path(os.devnull) if number else whole
            members.setdefault((part.package, part.version), {})[part.member] = source
    for (package, version), paths in members.items():
        with zipfile.ZipFile(folder / f"{package.replace('-', '_')}-{version}-py3-none-any.whl", "w") as wheel:
            for member, path in paths.items():
                wheel.writestr(member, path.read_bytes())
    for archive_path in archives.values():
        archive_path.unlink()


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
