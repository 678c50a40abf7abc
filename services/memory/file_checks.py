"""Which files an identity may have."""

from collections.abc import Sequence

from services.common.errors import InvalidRequest, TooLarge
from services.memory.blobs import digest_of
from services.memory.checks import check_digest
from services.memory.domain import File, Reference, ReferenceKind

BYTES_MAX = {ReferenceKind.PORTRAIT: 2**24, ReferenceKind.VOICE: 2**24, ReferenceKind.FILM: 2**26}
"""Largest file of each kind."""

ALL_BYTES_MAX = 2**27
"""Largest sum of all files of an identity."""

FILES_MAX = 16
"""Most files of an identity."""

DERIVED_BYTES_MAX = 2**24
"""Most of what a model derived."""

_FORMATS = {
    ReferenceKind.PORTRAIT: "a PNG or JPEG file",
    ReferenceKind.VOICE: "a WAV file",
    ReferenceKind.FILM: "an MP4 or WebM file",
}
_NEEDED = (ReferenceKind.PORTRAIT, ReferenceKind.VOICE)


def check_declared(field: str, declared: Sequence[tuple[ReferenceKind, int]], whole: bool = False) -> None:
    """Checks kinds and sizes of files, before a byte of them has to be read.

    Args:
        field: Where they stand in the request.
        declared: Kind and bytes of each.
        whole: They are all that an identity has: a portrait and a voice must be among them.

    Raises:
        InvalidRequest: One is empty, or missing.
        TooLarge: One is too large, or all are, or they are too many.
    """
    for index, (kind, size_bytes) in enumerate(declared):
        place = f"{field}[{index}]"
        if size_bytes < 1:
            raise InvalidRequest(place, f"the {kind} is empty (0 bytes); send {_FORMATS[kind]}")
        if size_bytes > BYTES_MAX[kind]:
            problem = f"the {kind} has {size_bytes} bytes; send at most {BYTES_MAX[kind]} ({_mib(BYTES_MAX[kind])})"
            raise TooLarge(place, problem)
    if len(declared) > FILES_MAX:
        raise TooLarge(field, f"{len(declared)} files; an identity has at most {FILES_MAX}")
    sum_bytes = sum(size_bytes for _, size_bytes in declared)
    if sum_bytes > ALL_BYTES_MAX:
        problem = f"{sum_bytes} bytes in all; an identity has at most {ALL_BYTES_MAX} ({_mib(ALL_BYTES_MAX)})"
        raise TooLarge(field, problem)
    if whole:
        _check_needed(field, [kind for kind, _ in declared])


def came(field: str, files: Sequence[File], since: int, others: Sequence[Reference] = ()) -> tuple[Reference, ...]:
    """Checks files that come with version `since` beside `others`, and returns how they are known.

    Whether there is a usable face or voice in them is for the services that use them to say.

    Raises:
        InvalidRequest: One is empty, too large, does not begin as its format does, or is there already.
    """
    check_declared(field, [(file.kind, len(file.content)) for file in files])
    references: list[Reference] = []
    for index, file in enumerate(files):
        place = f"{field}[{index}]"
        if not _begins_well(file):
            problem = f"the {file.kind} begins with {file.content[:12]!r}; send {_FORMATS[file.kind]}"
            raise InvalidRequest(place, problem)
        reference = Reference(digest_of(file.content), len(file.content), file.kind, since)
        if any(other.digest == reference.digest for other in (*others, *references)):
            problem = f"the {file.kind} with SHA-256 {reference.digest} is there already; send each file once"
            raise InvalidRequest(place, problem)
        references.append(reference)
    return tuple(references)


def left(field: str, references: Sequence[Reference], removed: Sequence[str]) -> tuple[Reference, ...]:
    """Returns the references that are not removed.

    Raises:
        InvalidRequest: A digest is none, or that of no file, or there twice.
    """
    for index, digest in enumerate(removed):
        place = f"{field}[{index}]"
        check_digest(place, digest)
        if digest in removed[:index]:
            raise InvalidRequest(place, f"{digest} is there twice; name each file once")
        if all(reference.digest != digest for reference in references):
            raise InvalidRequest(place, f"{digest} is the SHA-256 of none of its files; GetIdentity tells them")
    return tuple(reference for reference in references if reference.digest not in removed)


def check_together(references: Sequence[Reference]) -> None:
    """Checks all files of an identity after a change.

    Raises:
        InvalidRequest: No portrait or no voice would be left.
        TooLarge: They would be too many or too large.
    """
    check_declared("header.added", [(reference.kind, reference.size_bytes) for reference in references])
    _check_needed("header.removed", [reference.kind for reference in references])


def check_derived(content: bytes) -> None:
    """Checks the size of what a model derived.

    Raises:
        InvalidRequest: It is empty.
        TooLarge: It is too large.
    """
    if not content:
        raise InvalidRequest("content", f"it is empty (0 bytes); send 1 to {DERIVED_BYTES_MAX}")
    if len(content) > DERIVED_BYTES_MAX:
        problem = f"it has {len(content)} bytes; send at most {DERIVED_BYTES_MAX} ({_mib(DERIVED_BYTES_MAX)})"
        raise TooLarge("content", problem)


def _check_needed(field: str, kinds: Sequence[ReferenceKind]) -> None:
    for kind in _NEEDED:
        if kind not in kinds:
            raise InvalidRequest(field, f"no {kind} among the identity's files; it needs one: send {_FORMATS[kind]}")


def _begins_well(file: File) -> bool:
    content = file.content
    match file.kind:
        case ReferenceKind.PORTRAIT:
            return content.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"))
        case ReferenceKind.VOICE:
            return content[:4] == b"RIFF" and content[8:12] == b"WAVE"
        case ReferenceKind.FILM:
            return content[4:8] == b"ftyp" or content.startswith(b"\x1aE\xdf\xa3")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes // 2**20} MiB"
