"""What identities can show, and what shows a voice or a face an emotion."""

from collections.abc import Iterator

import grpc

from client.connection import ask, read, send
from client.files import Content, pieces, size_of
from e3rg.memory.v1 import identities_pb2 as pb
from e3rg.memory.v1 import identities_pb2_grpc


class EmotionReferences:
    """The emotional references and banks of one tenant. Without an identity, they are those of all the tenant's."""

    def __init__(self, channel: grpc.Channel, tenant: str) -> None:
        self._stub = identities_pb2_grpc.IdentityServiceStub(channel)
        self._tenant = tenant

    def put(
        self,
        generator: pb.Generator,
        name: str,
        content: Content,
        media_type: str,
        identity: str = "",
    ) -> pb.EmotionReference:
        """Keeps an emotional reference, instead of the one there was.

        Args:
            generator: Whether it is for voices or faces.
            name: A voice style or a face class of the wheel.
            content: The file, or its content.
            media_type: Its MIME type.
            identity: Whose own it is.

        Raises:
            ClientError: The identity is unknown, or something is wrong.
            OSError: The file cannot be read, or is empty.
        """
        header = pb.PutEmotionReferenceHeader(
            tenant=self._tenant,
            identity=identity,
            generator=generator,
            name=name,
            media_type=media_type,
            size_bytes=size_of(content),
        )

        def parts() -> Iterator[pb.PutEmotionReferenceRequest]:
            yield pb.PutEmotionReferenceRequest(header=header)
            for piece in pieces(content):
                yield pb.PutEmotionReferenceRequest(content=piece)

        return send(self._stub.PutEmotionReference, parts()).reference

    def get(self, generator: pb.Generator, name: str, identity: str = "") -> Iterator[bytes]:
        """Yields the bytes of an emotional reference: the identity's own, else the tenant's.

        Raises:
            ClientError: There is neither.
        """
        request = pb.GetEmotionReferenceRequest(tenant=self._tenant, identity=identity, generator=generator, name=name)
        return (part.content for part in read(self._stub.GetEmotionReference, request))

    def all(self, identity: str = "") -> list[pb.EmotionReference]:
        """Returns the references that hold for an identity, or the tenant's.

        Raises:
            ClientError: The identity is unknown.
        """
        request = pb.ListEmotionReferencesRequest(tenant=self._tenant, identity=identity)
        return list(ask(self._stub.ListEmotionReferences, request).references)

    def remove(self, generator: pb.Generator, name: str, identity: str = "") -> None:
        """Removes an emotional reference.

        Raises:
            ClientError: There is none.
        """
        request = pb.RemoveEmotionReferenceRequest(
            tenant=self._tenant, identity=identity, generator=generator, name=name
        )
        ask(self._stub.RemoveEmotionReference, request)

    def put_bank(self, bank: pb.EmotionBank) -> None:
        """Stores what the identities that name this bank can show.

        Raises:
            ClientError: The wheel does not know all of it.
        """
        ask(self._stub.PutEmotionBank, pb.PutEmotionBankRequest(tenant=self._tenant, bank=bank))
