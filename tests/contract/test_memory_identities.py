"""Every promise of `identities.proto`, over a real channel and both kinds of stores."""

import hashlib

import grpc
import pytest

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from services.common import clients
from services.memory import keys
from services.memory.store import Store
from tests.memory_service import (
    FILM,
    MIB,
    PORTRAIT,
    TENANT,
    VOICE,
    Stubs,
    each,
    grants,
    header,
    held,
    joined,
    memory_over,
    parts,
    pieces,
    serving,
)
from tests.serving import refused


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_an_identity_is_added_listed_read_and_its_files_come_back_in_pieces(stubs: Stubs) -> None:
    added = await stubs.add(parts(header(), PORTRAIT, VOICE, FILM))
    assert added.profile == header().profile
    assert list(added.grants) == grants()
    assert (added.emotion_bank, added.version, len(added.generation)) == ("default", 1, 32)
    assert [(each.digest, each.size_bytes, each.kind) for each in added.references] == [
        (digest_of(PORTRAIT), len(PORTRAIT), pb.REFERENCE_KIND_PORTRAIT),
        (digest_of(VOICE), len(VOICE), pb.REFERENCE_KIND_VOICE),
        (digest_of(FILM), len(FILM), pb.REFERENCE_KIND_FILM),
    ]
    assert (await stubs.identities.GetIdentity(pb.GetIdentityRequest(tenant=TENANT, identity="ada"))).identity == added
    for content in (PORTRAIT, VOICE, FILM):
        wanted = pb.GetReferenceRequest(tenant=TENANT, identity="ada", digest=digest_of(content))
        assert await joined(stubs.identities.GetReference(wanted)) == content


async def test_identities_are_listed_in_pages_by_id(stubs: Stubs) -> None:
    for name in ("eve", "abe", "ida", "bob", "ada"):
        await stubs.add(parts(header(name), PORTRAIT[:100], VOICE))
    request = pb.ListIdentitiesRequest(tenant=TENANT, page_size=2)
    names = []
    for _ in range(3):
        page = await stubs.identities.ListIdentities(request)
        names += [identity.id for identity in page.identities]
        request.page_token = page.next_page_token
    assert (names, request.page_token) == (["abe", "ada", "bob", "eve", "ida"], "")
    request.page_size = 201
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "page_size: 201; send 1 to 200, or 0 for 50"):
        await stubs.identities.ListIdentities(request)


async def damage(stubs: Stubs, store: Store, *names: str) -> dict[str, bytes]:
    """Adds identities and cuts their heads short; returns what those were."""
    whole = {}
    for name in names:
        await stubs.add(parts(header(name), PORTRAIT[:100], VOICE))
        key = keys.head(TENANT, name)
        whole[key] = held(store)[key] or b""
        store.put(key, whole[key][:-1])
    return whole


async def listed(stubs: Stubs, page_size: int = 50) -> list[tuple[list[str], list[str]]]:
    """Of each page, who is on it and who is damaged."""
    request = pb.ListIdentitiesRequest(tenant=TENANT, page_size=page_size)
    pages: list[tuple[list[str], list[str]]] = []
    while request.page_token or not pages:
        page = await stubs.identities.ListIdentities(request)
        for ill in page.damaged:
            assert f"stored object {keys.head(TENANT, ill.id)!r} is damaged: its SHA-256 does not" in ill.problem
        pages.append(([identity.id for identity in page.identities], [ill.id for ill in page.damaged]))
        assert not page.next_page_token or page.next_page_token > request.page_token, "it goes on"
        request.page_token = page.next_page_token
    return pages


async def test_a_listing_goes_past_damaged_identities_and_names_them(stubs: Stubs, store: Store) -> None:
    for name in ("abe", "eve"):
        await stubs.add(parts(header(name), PORTRAIT[:100], VOICE))
    await damage(stubs, store, "ada", "bob", "carl", "zoe")
    assert await listed(stubs) == [(["abe", "eve"], ["ada", "bob", "carl", "zoe"])]
    assert await listed(stubs, 2) == [(["abe"], ["ada"]), ([], ["bob", "carl"]), (["eve"], ["zoe"])]
    assert await listed(stubs, 1) == [
        (["abe"], []),
        ([], ["ada"]),
        ([], ["bob"]),
        ([], ["carl"]),
        (["eve"], []),
        ([], ["zoe"]),
    ]


async def test_a_damaged_identity_itself_is_an_error_that_names_it_until_it_is_repaired(
    stubs: Stubs, store: Store
) -> None:
    for key, whole in (await damage(stubs, store, "ada")).items():
        for _ in range(2):
            assert await listed(stubs) == [([], ["ada"])]
            for call in (
                stubs.identities.GetIdentity(pb.GetIdentityRequest(tenant=TENANT, identity="ada")),
                stubs.recall(),
            ):
                with refused(grpc.StatusCode.INTERNAL, f"stored object {key!r} is damaged"):
                    await call
        store.put(key, whole)
    assert (await stubs.recall()).identity.id == "ada"
    assert await listed(stubs) == [(["ada"], [])]


async def test_a_damaged_identity_can_be_erased_with_all_that_was_its_own(stubs: Stubs, store: Store) -> None:
    await stubs.add(parts(header("bob"), PORTRAIT[:100], VOICE))
    await damage(stubs, store, "ada")
    assert await listed(stubs) == [(["bob"], ["ada"])]
    request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
    audit = (await stubs.erasure.EraseIdentity(request)).audit
    assert {each.kind: each.objects for each in audit.counts} == {"head": 1, "references": 2}
    assert not [key for key in held(store) if "/ada" in key]
    assert await listed(stubs) == [(["bob"], [])]
    await stubs.add(parts(header(), PORTRAIT[:100], VOICE))
    assert await listed(stubs) == [(["ada", "bob"], [])]


async def test_a_change_makes_the_next_version_and_the_one_before_can_be_read(stubs: Stubs) -> None:
    added = await stubs.add(parts(header()))
    profile = common.Profile()
    profile.CopyFrom(added.profile)
    profile.speaking_style = "in riddles"
    change = pb.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=1, profile=profile)
    change.grants.grants.extend(grants(["animate_face"]))
    changed = await stubs.change(change, FILM)
    assert (changed.version, changed.profile.speaking_style) == (2, "in riddles")
    assert [grant.use for grant in changed.grants] == ["animate_face"]
    assert [each.digest for each in changed.references] == [digest_of(each) for each in (PORTRAIT, VOICE, FILM)]
    changed = await stubs.change(
        pb.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=2, removed=[digest_of(FILM)])
    )
    assert [each.digest for each in changed.references] == [digest_of(PORTRAIT), digest_of(VOICE)]
    first = await stubs.identities.GetIdentity(pb.GetIdentityRequest(tenant=TENANT, identity="ada", version=1))
    assert first.identity == added
    with refused(grpc.StatusCode.NOT_FOUND, "has no version 4"):
        await stubs.identities.GetIdentity(pb.GetIdentityRequest(tenant=TENANT, identity="ada", version=4))


async def test_a_change_of_what_another_changed_meanwhile_is_refused_and_changes_nothing(
    stubs: Stubs, store: Store
) -> None:
    await stubs.add(parts(header()))
    grants = pb.ChangeIdentityHeader.Grants()
    await stubs.change(pb.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=1, grants=grants))
    before = held(store)
    with refused(grpc.StatusCode.ABORTED, "ada"):
        await stubs.change(pb.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=1), FILM)
    assert held(store) == before


def derived_parts(content: bytes = b"a fitted voice", **changes: str) -> list[pb.PutDerivedRequest]:
    named = {"tenant": TENANT, "identity": "ada", "model_digest": "a" * 64, "reference": digest_of(VOICE), **changes}
    head = pb.PutDerivedHeader(reference_digests=[named.pop("reference")], size_bytes=len(content), **named)
    return [pb.PutDerivedRequest(header=head), *(pb.PutDerivedRequest(content=piece) for piece in pieces(content))]


async def put_derived(stubs: Stubs, requests: list[pb.PutDerivedRequest]) -> None:
    await clients.ask(stubs.identities.PutDerived(), each(requests))


def wanted(model: str = "a", reference: bytes = VOICE) -> pb.GetDerivedRequest:
    return pb.GetDerivedRequest(
        tenant=TENANT, identity="ada", reference_digests=[digest_of(reference)], model_digest=model * 64
    )


async def test_what_a_model_derived_is_kept_under_its_digest(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    for content in (b"first", b"rig" * MIB):
        await put_derived(stubs, derived_parts(content))
    await put_derived(stubs, derived_parts(b"of another model", model_digest="b" * 64))
    assert await joined(stubs.identities.GetDerived(wanted())) == b"rig" * MIB
    assert await joined(stubs.identities.GetDerived(wanted("b"))) == b"of another model"
    with refused(grpc.StatusCode.NOT_FOUND, "cccccccccccc"):
        await joined(stubs.identities.GetDerived(wanted("c")))


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        (derived_parts(model_digest="../secrets"), "'../secrets' is not a SHA-256"),
        (derived_parts(reference=""), "'' is not a SHA-256"),
        (derived_parts(b""), "header.size_bytes: 0; declare the size of what follows, 1 to 16777216"),
        (derived_parts()[:1], "content: 0 of 14 bytes came"),
        ([derived_parts()[0], derived_parts(b"another sized")[1]], "content: 13 of 14 bytes came"),
        ([*derived_parts(), derived_parts()[1]], "content: more than the 14 bytes came that were declared"),
        (derived_parts()[1:], "header: missing; send it first"),
    ],
)
async def test_what_cannot_be_kept_of_a_model_is_refused_with_the_field(
    stubs: Stubs, store: Store, requests: list[pb.PutDerivedRequest], text: str
) -> None:
    await stubs.add(parts(header()))
    before = held(store)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
        await put_derived(stubs, requests)
    assert held(store) == before


@pytest.mark.parametrize(
    ("allowed", "reference", "lacking"),
    [("animate_face", VOICE, "clone_voice"), ("clone_voice", PORTRAIT, "animate_face")],
)
async def test_a_file_whose_use_is_not_allowed_is_not_lent_and_nothing_is_derived_from_it(
    stubs: Stubs, allowed: str, reference: bytes, lacking: str
) -> None:
    await stubs.add(parts(header(uses=(allowed,))))
    file = pb.GetReferenceRequest(tenant=TENANT, identity="ada", digest=digest_of(reference))
    for call in (
        joined(stubs.identities.GetReference(file)),
        put_derived(stubs, derived_parts(reference=digest_of(reference))),
        joined(stubs.identities.GetDerived(wanted(reference=reference))),
    ):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, lacking):
            await call


@pytest.mark.parametrize("part", ["/derived/", "/references/"])
async def test_a_damaged_object_is_an_internal_error_that_names_it_until_it_is_repaired(
    stubs: Stubs, store: Store, part: str
) -> None:
    await stubs.add(parts(header(), VOICE, PORTRAIT))
    await put_derived(stubs, derived_parts())
    key = next(key for key in held(store) if part in key and (part == "/derived/" or digest_of(VOICE) in key))
    content = held(store)[key] or b""
    store.put(key, content[:-1] + b"!")
    async with serving(memory_over(store)) as other:  # One that does not hold it.
        for _ in range(2):
            with refused(grpc.StatusCode.INTERNAL, f"stored object {key!r} is damaged"):
                await lent(other, part)
        store.put(key, content)
        assert await lent(other, part) in {VOICE, b"a fitted voice"}


async def lent(stubs: Stubs, part: str) -> bytes:
    if part == "/derived/":
        return await joined(stubs.identities.GetDerived(wanted()))
    file = pb.GetReferenceRequest(tenant=TENANT, identity="ada", digest=digest_of(VOICE))
    return await joined(stubs.identities.GetReference(file))


async def test_a_bank_of_the_tenant_is_what_its_identities_can_show(stubs: Stubs) -> None:
    bank = pb.EmotionBank(
        name="calm", face_classes=emotions.load().classes[:2], voice_styles=emotions.load().styles[:1]
    )
    await stubs.identities.PutEmotionBank(pb.PutEmotionBankRequest(tenant=TENANT, bank=bank))
    head = header()
    head.emotion_bank = "calm"
    await stubs.add(parts(head))
    assert (await stubs.recall()).emotion_bank == bank
    head.tenant = "other"
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "'calm'"):
        await stubs.add(parts(head))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "bank: missing"):
        await stubs.identities.PutEmotionBank(pb.PutEmotionBankRequest(tenant=TENANT))


def emotion_parts(content: bytes, identity: str = "", name: str = "cheerful") -> list[pb.PutEmotionReferenceRequest]:
    head = pb.PutEmotionReferenceHeader(
        tenant=TENANT,
        identity=identity,
        generator=pb.GENERATOR_VOICE,
        name=name,
        media_type="audio/wav",
        size_bytes=len(content),
    )
    return [
        pb.PutEmotionReferenceRequest(header=head),
        *(pb.PutEmotionReferenceRequest(content=piece) for piece in pieces(content)),
    ]


async def test_an_emotional_reference_is_the_identitys_own_or_else_the_tenants(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    style = emotions.load().styles[0]
    contents = {"": b"tenant" * MIB, "ada": b"her own"}
    for identity, content in contents.items():
        kept = await clients.ask(stubs.identities.PutEmotionReference(), each(emotion_parts(content, identity, style)))
        assert (kept.reference.size_bytes, kept.reference.own) == (len(content), bool(identity))
    named = {"tenant": TENANT, "generator": pb.GENERATOR_VOICE, "name": style}
    for identity, content in contents.items():
        request = pb.GetEmotionReferenceRequest(identity=identity, **named)  # type: ignore[arg-type]
        got = [response async for response in stubs.identities.GetEmotionReference(request)]
        assert got[0].reference.digest == digest_of(content)
        assert b"".join(response.content for response in got) == content
        listing = pb.ListEmotionReferencesRequest(tenant=TENANT, identity=identity)
        (listed,) = (await stubs.identities.ListEmotionReferences(listing)).references
        assert listed == got[0].reference
    remove = pb.RemoveEmotionReferenceRequest(identity="ada", **named)  # type: ignore[arg-type]
    await stubs.identities.RemoveEmotionReference(remove)
    request = pb.GetEmotionReferenceRequest(identity="ada", **named)  # type: ignore[arg-type]
    assert await joined(stubs.identities.GetEmotionReference(request)) == contents[""]
    with refused(grpc.StatusCode.NOT_FOUND):
        await stubs.identities.RemoveEmotionReference(remove)


async def test_an_erased_identity_is_gone_with_all_that_was_its_own(stubs: Stubs, store: Store) -> None:
    await stubs.add(parts(header()))
    await put_derived(stubs, derived_parts())
    await stubs.say(1)
    request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
    await stubs.erasure.EraseIdentity(request)
    assert not [key for key in held(store) if "/kept/" in key or "/identities/" in key]
    with refused(grpc.StatusCode.NOT_FOUND, "'ada'"):
        await stubs.recall()
