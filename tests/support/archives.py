"""Archives of identities, as a program that knows the format writes and reads them."""

import io
import tarfile
from collections.abc import Iterable

from services.common.tar import END, Member, packed


def archive_of(members: Iterable[Member]) -> bytes:
    """Return an archive with these members."""
    return b"".join(piece for member in members for piece in packed(member)) + END


def members(archive: bytes) -> list[Member]:
    """Return the members of an archive, read by another program."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [
            Member(info.name, tar.extractfile(info).read(), info.pax_headers.get("E3RG.media_type", ""))  # type: ignore[union-attr]
            for info in tar
        ]
