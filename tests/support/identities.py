"""Requests about identities' media, and a look at everything that a memory keeps."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import select

from e3rg.memory.v1 import identities_pb2 as pb
from services.common import clients
from services.memory.schema import metadata
from tests.support.memory import TENANT, VOICE, Stubs, each, joined, pieces
from tests.support.stacks import Stack

MODEL = "a" * 64
OWNERLESS = ("tenants", "audits", "tasks")
"""Tables that may have rows when nothing is kept: names of tenants, records of erasures, times of maintenance."""


def digest_of(content: bytes) -> str:
    """Return the SHA-256 (hex) of a content."""
    return hashlib.sha256(content).hexdigest()


async def kept(stubs: Stubs, stack: Stack, without: Collection[str] = ()) -> dict[str, list[str]]:
    """Return all rows by table but their counters, and the keys of all objects; nothing of what is empty."""
    assert stubs.inside
    found = {"objects": stack.objects}
    for table in metadata.sorted_tables:
        if table.name not in without:
            columns = [column for column in table.c if not column.name.endswith(("_added", "_removed"))]
            found[table.name] = sorted(map(repr, await stubs.inside.storage.rows("", select(*columns))))
    return {name: entries for name, entries in found.items() if entries}


async def left(stubs: Stubs, stack: Stack) -> dict[str, list[str]]:
    """Return what is kept, beside records of erasures, once all objects that no row names are swept."""
    assert stubs.inside
    assert stubs.upkeep
    await stubs.inside.erasure.drain()
    await stubs.upkeep.delete_orphans()
    return await kept(stubs, stack, OWNERLESS)


async def get(stubs: Stubs, name: str = "ada", version: int = 0, tenant: str = TENANT) -> pb.Identity:
    """Return an identity."""
    request = pb.GetIdentityRequest(tenant=tenant, identity=name, version=version)
    return (await stubs.identities.GetIdentity(request)).identity


async def listed(stubs: Stubs, page_size: int = 50, after: str = "", tenant: str = TENANT) -> tuple[list[str], str]:
    """Return the ids of a page of identities, and the token of the next page."""
    request = pb.ListIdentitiesRequest(tenant=tenant, page_size=page_size, page_token=after)
    page = await stubs.identities.ListIdentities(request)
    return [identity.id for identity in page.identities], page.next_page_token


async def file(stubs: Stubs, content_or_digest: bytes | str, name: str = "ada", tenant: str = TENANT) -> bytes:
    """Return a reference file, asked for by its digest."""
    digest = content_or_digest if isinstance(content_or_digest, str) else digest_of(content_or_digest)
    request = pb.GetReferenceRequest(tenant=tenant, identity=name, digest=digest)
    return await joined(stubs.identities.GetReference(request))


def change_of(if_version: int, grants: Iterable[pb.Grant] | None = None, **fields: Any) -> pb.ChangeIdentityHeader:
    """Return the header of a change of Ada."""
    header = pb.ChangeIdentityHeader(**{"tenant": TENANT, "id": "ada", "if_version": if_version, **fields})
    if grants is not None:
        header.grants.SetInParent()
        header.grants.grants.extend(grants)
    return header


def derived_parts(content: bytes, *files: bytes, model: str = MODEL, **fields: Any) -> list[pb.PutDerivedRequest]:
    """Return the requests that keep what was derived from these files, else from the voice."""
    digests = [digest_of(each) for each in files or (VOICE,)]
    header: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "reference_digests": digests, "model_digest": model}
    head = pb.PutDerivedHeader(**(header | {"size_bytes": len(content)} | fields))
    return [pb.PutDerivedRequest(header=head), *(pb.PutDerivedRequest(content=piece) for piece in pieces(content))]


async def put_derived(stubs: Stubs, content: bytes, *files: bytes, model: str = MODEL, **fields: Any) -> None:
    """Keep what was derived."""
    await clients.ask(stubs.identities.PutDerived(), each(derived_parts(content, *files, model=model, **fields)))


async def derived(stubs: Stubs, *files: bytes, model: str = MODEL, **fields: Any) -> bytes:
    """Return what was derived from these files, else from the voice."""
    digests = [digest_of(each) for each in files or (VOICE,)]
    header: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "reference_digests": digests, "model_digest": model}
    return await joined(stubs.identities.GetDerived(pb.GetDerivedRequest(**(header | fields))))


def emotion_parts(content: bytes, **fields: Any) -> list[pb.PutEmotionReferenceRequest]:
    """Return the requests that keep an emotional reference of the tenant: a sad voice."""
    header: dict[str, Any] = {"media_type": "audio/wav", "size_bytes": len(content)}
    head = pb.PutEmotionReferenceHeader(**(named(fields) | header | fields))
    return [
        pb.PutEmotionReferenceRequest(header=head),
        *(pb.PutEmotionReferenceRequest(content=piece) for piece in pieces(content)),
    ]


async def put_emotion(stubs: Stubs, content: bytes, **fields: Any) -> pb.EmotionReference:
    """Keep an emotional reference."""
    call = stubs.identities.PutEmotionReference()
    return (await clients.ask(call, each(emotion_parts(content, **fields)))).reference


async def emotion(stubs: Stubs, **fields: Any) -> tuple[pb.EmotionReference, bytes]:
    """Return an emotional reference and its content."""
    request = pb.GetEmotionReferenceRequest(**named(fields))
    got = [response async for response in stubs.identities.GetEmotionReference(request)]
    assert [response.HasField("reference") for response in got] == [True] + [False] * (len(got) - 1)
    return got[0].reference, b"".join(response.content for response in got)


def named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return which emotional reference is meant; the tenant's sad voice if not told otherwise."""
    return {"tenant": TENANT, "generator": pb.GENERATOR_VOICE, "name": "sad", **fields}


async def imported(
    stubs: Stubs, archive: bytes, tenant: str = "other", name: str = "", piece_bytes: int = 2**20, **options: Any
) -> pb.Identity:
    """Import an archive."""
    head = pb.ImportIdentityHeader(tenant=tenant, identity=name)
    requests = [pb.ImportIdentityRequest(header=head)]
    requests += [
        pb.ImportIdentityRequest(content=archive[at : at + piece_bytes]) for at in range(0, len(archive), piece_bytes)
    ]
    return (await clients.ask(stubs.identities.ImportIdentity(**options), each(requests))).identity


async def exported(stubs: Stubs, name: str = "ada", tenant: str = TENANT) -> bytes:
    """Return the archive of an identity."""
    return await joined(stubs.identities.ExportIdentity(pb.ExportIdentityRequest(tenant=tenant, identity=name)))
