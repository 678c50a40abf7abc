"""Archives of identities as another program reads them, and as somebody writes them who knows the format."""

import io
import tarfile
from collections.abc import Iterable

from services.common.tar import END, Member, packed


def members(archive: bytes) -> list[Member]:
    """The members of an archive, in order."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [
            Member(info.name, tar.extractfile(info).read(), info.pax_headers.get("E3RG.media_type", ""))  # type: ignore[union-attr]
            for info in tar
        ]


def archive_of(listed: Iterable[Member]) -> bytes:
    """An archive with these members."""
    return b"".join(piece for member in listed for piece in packed(member)) + END
