"""Every promise of `erasure.proto` and `exemplars.proto`, over a real channel and both kinds of stores."""

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2 as pb
from e3rg.memory.v1 import exemplars_pb2, memory_pb2
from services.common import clients
from services.memory.store import Store
from tests.memory_service import (
    FILM,
    PORTRAIT,
    TENANT,
    VOICE,
    Stubs,
    each,
    header,
    held,
    parts,
)
from tests.serving import refused
from tests.talking import WAV, WordEmbedder


def left(store: Store) -> list[str]:
    """What is there beside records of erasures."""
    return [key for key in held(store) if "/audits/" not in key and not key.startswith("erasing/")]


async def keep_clip(stubs: Stubs, person: str) -> None:
    head = memory_pb2.PutClipHeader(
        tenant=TENANT,
        identity="ada",
        person=person,
        conversation="talk",
        turn="turn-1",
        kind=memory_pb2.CLIP_KIND_SPEECH,
        size_bytes=len(WAV),
    )
    parts = [memory_pb2.PutClipRequest(header=head), memory_pb2.PutClipRequest(content=WAV)]
    await clients.ask(stubs.memory.PutClip(), each(parts))


async def test_an_erased_identity_leaves_no_object_and_a_record_that_counts_them(stubs: Stubs, store: Store) -> None:
    await stubs.add(parts(header(), PORTRAIT, VOICE, FILM))
    await stubs.say(1, person="bob")
    await keep_clip(stubs, "bob")
    count = len(held(store))
    request = pb.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="Ada's keeper")
    audit = (await stubs.erasure.EraseIdentity(request)).audit
    assert left(store) == []
    assert (audit.what, audit.asked_by) == ("identity ada", "Ada's keeper")
    assert audit.begun_at_s <= audit.done_at_s <= audit.caches_gone_by_s
    counts = {each.kind: (each.objects, each.size_bytes) for each in audit.counts}
    assert counts["references"] == (3, len(PORTRAIT) + len(VOICE) + len(FILM))
    assert counts["clips"] == (1, len(WAV))
    assert (counts["turns"][0], counts["vectors"][0]) == (1, 1)
    assert sum(objects for objects, _ in counts.values()) >= count
    with refused(grpc.StatusCode.NOT_FOUND, "ada"):
        await stubs.erasure.EraseIdentity(request)
    await stubs.add(parts(header()))
    assert not (await stubs.recall(person="bob")).turns


async def test_an_erased_person_leaves_no_object_with_any_identity_and_others_stay(stubs: Stubs, store: Store) -> None:
    for name in ("ada", "eve"):
        await stubs.add(parts(header(name), VOICE, PORTRAIT[:100]))
        await stubs.say(1, name, person="carl")
    before = held(store)
    for name in ("ada", "eve"):
        await stubs.say(1, name, person="bob")
    await keep_clip(stubs, "bob")
    request = pb.ErasePersonRequest(tenant=TENANT, person="bob", asked_by="Bob")
    audit = (await stubs.erasure.ErasePerson(request)).audit
    assert left(store) == list(before)
    counts = {each.kind: each.objects for each in audit.counts}
    assert (audit.what, counts["turns"], counts["vectors"], counts["clips"]) == ("person bob", 2, 2, 1)
    with refused(grpc.StatusCode.NOT_FOUND, "bob"):
        await stubs.erasure.ErasePerson(request)


async def test_somebody_without_a_handle_is_erased_by_the_conversation(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    await stubs.say(1)
    request = pb.ErasePersonRequest(tenant=TENANT, conversation="talk", asked_by="the test")
    assert (await stubs.erasure.ErasePerson(request)).audit.what == "conversation talk"
    assert not (await stubs.recall()).turns
    for person, conversation in (("bob", "talk"), ("", "")):
        wrong = pb.ErasePersonRequest(tenant=TENANT, person=person, conversation=conversation, asked_by="the test")
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "conversation: name a person"):
            await stubs.erasure.ErasePerson(wrong)


async def test_an_erasure_that_nobody_asks_for_is_refused(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    for asked_by in ("", "x" * 101):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "asked_by: "):
            await stubs.erasure.EraseIdentity(pb.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by=asked_by))
    assert (await stubs.recall()).identity.id == "ada"


async def test_the_records_are_listed_in_pages_the_newest_first(stubs: Stubs) -> None:
    for number in range(3):
        await stubs.add(parts(header(f"ada-{number}"), VOICE, PORTRAIT[:100]))
        request = pb.EraseIdentityRequest(tenant=TENANT, identity=f"ada-{number}", asked_by="the test")
        await stubs.erasure.EraseIdentity(request)
    listing = pb.ListAuditsRequest(tenant=TENANT, page_size=2)
    first = await stubs.erasure.ListAudits(listing)
    listing.page_token = first.next_page_token
    second = await stubs.erasure.ListAudits(listing)
    begun = [audit.begun_at_s for page in (first, second) for audit in page.audits]
    assert (len(begun), begun, second.next_page_token) == (3, sorted(begun, reverse=True), "")
    assert not (await stubs.erasure.ListAudits(pb.ListAuditsRequest(tenant="other"))).audits
    for size, token, text in ((201, "", "page_size: 201"), (2, "../x", "page_token: ")):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
            await stubs.erasure.ListAudits(pb.ListAuditsRequest(tenant=TENANT, page_size=size, page_token=token))


async def test_a_retention_is_set_for_one_tenant(stubs: Stubs) -> None:
    retention = pb.Retention(turns_days=30, clips_days=7, derived_days=90, audits_days=365)
    await stubs.erasure.SetRetention(pb.SetRetentionRequest(tenant=TENANT, retention=retention))
    assert (await stubs.erasure.GetRetention(pb.GetRetentionRequest(tenant=TENANT))).retention == retention
    assert (await stubs.erasure.GetRetention(pb.GetRetentionRequest(tenant="other"))).retention == pb.Retention()
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "retention: missing"):
        await stubs.erasure.SetRetention(pb.SetRetentionRequest(tenant=TENANT))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "retention.turns_days: "):
        await stubs.erasure.SetRetention(
            pb.SetRetentionRequest(tenant=TENANT, retention=pb.Retention(turns_days=2**32 - 1))
        )


async def test_examples_are_kept_found_listed_and_removed(stubs: Stubs, store: Store) -> None:
    await stubs.add(parts(header()))
    before = held(store)
    ids = {}
    for identity, text in (("ada", "my cat died"), ("", "my dog died"), ("ada", "i won the lottery")):
        exemplar = exemplars_pb2.Exemplar(user_text=text, user_emotion="sad", reply_text="I am with you.")
        request = exemplars_pb2.PutExemplarsRequest(tenant=TENANT, identity=identity, exemplars=[exemplar])
        (ids[text],) = (await stubs.exemplars.PutExemplars(request)).ids
    search = exemplars_pb2.SearchExemplarsRequest(tenant=TENANT, identity="ada", text="my cat died", hits_max=2)
    found = await stubs.exemplars.SearchExemplars(search)
    assert [hit.exemplar.id for hit in found.hits] == [ids["my cat died"], ids["my dog died"]]
    assert found.hits[0].similarity == pytest.approx(1, abs=1e-3)
    assert found.model_digest == WordEmbedder.digest
    listing = exemplars_pb2.ListExemplarsRequest(tenant=TENANT, identity="ada", page_size=1)
    first = await stubs.exemplars.ListExemplars(listing)
    listing.page_token = first.next_page_token
    second = await stubs.exemplars.ListExemplars(listing)
    assert {first.exemplars[0].id, second.exemplars[0].id} == {ids["my cat died"], ids["i won the lottery"]}
    for identity, text in (("ada", "my cat died"), ("", "my dog died"), ("ada", "i won the lottery")):
        remove = exemplars_pb2.RemoveExemplarsRequest(tenant=TENANT, identity=identity, ids=[ids[text], "not-there"])
        assert (await stubs.exemplars.RemoveExemplars(remove)).exemplars == 1
    assert not (await stubs.exemplars.SearchExemplars(search)).hits
    assert [key for key in held(store) if key not in before and "/items/" in key] == []
    search.hits_max = 33
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "hits_max: 33 hits; ask for 1 to 32"):
        await stubs.exemplars.SearchExemplars(search)
