"""Who the avatars are: their files, what was allowed, what they can show."""

import logging
from collections.abc import Callable, Iterator, Sequence

import grpc

from client.connection import LONG_TIMEOUT_S, ask, read, send
from client.files import Content, digest_of, pieces, size_of
from client.terminal import printable
from e3rg.memory.v1 import identities_pb2 as pb
from e3rg.memory.v1 import identities_pb2_grpc

Files = Sequence[tuple[pb.ReferenceKind, Content]]
"""What each file is, and the file or its content."""

log = logging.getLogger(__name__)


def _warn(damaged: pb.DamagedIdentity) -> None:
    log.warning("identity %s is left out: %s", printable(damaged.id), printable(damaged.problem))


class Identities:
    """The identities of one tenant."""

    def __init__(self, channel: grpc.Channel, tenant: str) -> None:
        self._stub = identities_pb2_grpc.IdentityServiceStub(channel)
        self._tenant = tenant

    def add(self, header: pb.AddIdentityHeader, files: Files) -> pb.Identity:
        """Adds an identity.

        Args:
            header: Who it is, and what was allowed; the tenant and the list of files are filled in here.
            files: At least a portrait and a voice; the first portrait is the face.

        Raises:
            ClientError: The id is taken, or a field or a file is wrong.
            OSError: A file cannot be read, or is empty; nothing was sent then.
        """
        filled = pb.AddIdentityHeader()
        filled.CopyFrom(header)
        filled.tenant = self._tenant
        filled.references.extend(_announced(files))

        def parts() -> Iterator[pb.AddIdentityRequest]:
            yield pb.AddIdentityRequest(header=filled)
            for piece in _pieces(files):
                yield pb.AddIdentityRequest(content=piece)

        return send(self._stub.AddIdentity, parts()).identity

    def change(self, header: pb.ChangeIdentityHeader, files: Files = ()) -> pb.Identity:
        """Changes an identity into its next version.

        Args:
            header: Of which version, and what shall be different; the tenant and the list of added files are filled in
                here.
            files: Those that come in addition.

        Raises:
            ClientError: It is unknown, or ABORTED: somebody else changed it meanwhile; or something is wrong.
            OSError: A file cannot be read, or is empty; nothing was sent then.
        """
        filled = pb.ChangeIdentityHeader()
        filled.CopyFrom(header)
        filled.tenant = self._tenant
        filled.added.extend(_announced(files))

        def parts() -> Iterator[pb.ChangeIdentityRequest]:
            yield pb.ChangeIdentityRequest(header=filled)
            for piece in _pieces(files):
                yield pb.ChangeIdentityRequest(content=piece)

        return send(self._stub.ChangeIdentity, parts()).identity

    def get(self, identity: str, version: int = 0) -> pb.Identity:
        """Returns an identity as it is, or as it was in an earlier version.

        Raises:
            ClientError: There is none of that id, or not that version.
        """
        request = pb.GetIdentityRequest(tenant=self._tenant, identity=identity, version=version)
        return ask(self._stub.GetIdentity, request).identity

    def all(self, tell: Callable[[pb.DamagedIdentity], None] = _warn) -> Iterator[pb.Identity]:
        """Yields all identities by id, page after page, but those that are damaged.

        Args:
            tell: Called with each damaged one; by default a warning is logged.

        Raises:
            ClientError: The memory cannot be reached.
        """
        token = ""
        while True:
            page = ask(self._stub.ListIdentities, pb.ListIdentitiesRequest(tenant=self._tenant, page_token=token))
            yield from page.identities
            for damaged in page.damaged:
                tell(damaged)
            if not (token := page.next_page_token):
                return

    def file(self, identity: str, digest: str) -> Iterator[bytes]:
        """Yields the bytes of a file of an identity.

        Raises:
            ClientError: It is unknown, or its use is not allowed.
        """
        request = pb.GetReferenceRequest(tenant=self._tenant, identity=identity, digest=digest)
        return (part.content for part in read(self._stub.GetReference, request))

    def export(self, identity: str) -> Iterator[bytes]:
        """Yields the whole identity as a tar file.

        Raises:
            ClientError: It is unknown. What was yielded before an error is no archive.
        """
        request = pb.ExportIdentityRequest(tenant=self._tenant, identity=identity)
        return (part.content for part in read(self._stub.ExportIdentity, request, LONG_TIMEOUT_S))

    def import_(self, archive: Content, identity: str = "") -> pb.Identity:
        """Adds an identity out of such an archive.

        Args:
            archive: The tar file.
            identity: The id that it gets; empty for the one that it had.

        Raises:
            ClientError: The id is taken, or the archive is not whole.
            OSError: The file cannot be read, or is empty.
        """
        size_of(archive)

        def parts() -> Iterator[pb.ImportIdentityRequest]:
            yield pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant=self._tenant, identity=identity))
            for piece in pieces(archive):
                yield pb.ImportIdentityRequest(content=piece)

        return send(self._stub.ImportIdentity, parts(), LONG_TIMEOUT_S).identity


def _announced(files: Files) -> list[pb.NewReference]:
    # All are looked at before any is sent: the one that is missing may be the last.
    return [
        pb.NewReference(kind=kind, size_bytes=size_of(content), digest=digest_of(content)) for kind, content in files
    ]


def _pieces(files: Files) -> Iterator[bytes]:
    for _, content in files:
        yield from pieces(content)
