"""Media of identities: files, what models derived, emotional references; and emotion banks."""

import asyncio
from io import BytesIO

import grpc
import pytest

import emotions
from e3rg.memory.v1 import erasure_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from tests.serving import refused
from tests.support.identities import (
    MODEL,
    change_of,
    derived,
    digest_of,
    emotion,
    file,
    get,
    kept,
    named,
    put_derived,
    put_emotion,
)
from tests.support.memory import FILM, MIB, PORTRAIT, TENANT, VOICE, Stubs, header, parts, serving
from tests.support.object_store import Bucket
from tests.support.s3_proxy import Hold, S3Proxy
from tests.support.stacks import Stack, s3_variables

OTHER_MODEL = "e" * 64
VOICES, FACES = pb.GENERATOR_VOICE, pb.GENERATOR_FACE
NOT_FOUND = grpc.StatusCode.NOT_FOUND


async def test_what_a_model_derived_is_kept_for_its_model_and_files_until_it_is_replaced(stack: Stack) -> None:
    two = VOICE + b"2"
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE, two))
        with refused(NOT_FOUND, f"model {MODEL[:12]} has derived nothing from these files of identity 'ada'"):
            await derived(stubs)
        await put_derived(stubs, b"one")
        await put_derived(stubs, b"both", VOICE, two)
        await put_derived(stubs, b"another", model=OTHER_MODEL)
        await put_derived(stubs, b"rig" * MIB, PORTRAIT)
        assert [await derived(stubs), await derived(stubs, VOICE, two)] == [b"one", b"both"]
        assert await derived(stubs, PORTRAIT) == b"rig" * MIB
        with refused(NOT_FOUND, "has derived nothing"):
            await derived(stubs, two)
        for _ in range(2):
            await put_derived(stubs, b"better")
        assert [await derived(stubs), await derived(stubs, model=OTHER_MODEL)] == [b"better", b"another"]
        assert stubs.upkeep
        await stubs.upkeep.sweep()
        assert len(stack.objects) == 3 + 4


async def test_replicas_that_derive_at_once_keep_one(stack: Stack) -> None:
    contents = [bytes([number]) * 1000 for number in range(8)]
    async with serving(stack.settings()) as one, serving(stack.settings()) as other:
        await one.add(parts(header()))
        puts = [put_derived(stubs, each) for each, stubs in zip(contents, [one, other] * 4, strict=True)]
        await asyncio.gather(*puts)
        assert await derived(one) == await derived(other)
        assert await derived(one) in contents
        assert one.upkeep
        await one.upkeep.sweep()
        assert len(stack.objects) == 3


async def test_media_are_asked_for_by_digests_of_files_that_the_identity_has(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        for wrong in ("", "../x", "A" * 64, "a" * 63, "a" * 64 + "\n"):
            with refused(grpc.StatusCode.INVALID_ARGUMENT, f"digest: {wrong!r} is not a SHA-256; send 64"):
                await file(stubs, wrong)
            with refused(grpc.StatusCode.INVALID_ARGUMENT, f"model_digest: {wrong!r} is not a SHA-256"):
                await derived(stubs, model=wrong)
        for call in (file(stubs, FILM), derived(stubs, FILM), put_derived(stubs, b"x", FILM)):
            with refused(NOT_FOUND, f"identity 'ada' has no file with SHA-256 {digest_of(FILM)}; GetIdentity tells"):
                await call


@pytest.mark.parametrize("way", ["damaged", "missing"])
async def test_media_that_are_not_what_was_written_are_an_internal_error_that_names_the_object(
    stack: Stack, way: str
) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        await put_derived(stubs, b"a fitted voice")
        await put_emotion(stubs, b"sad")
        keys = [key for key in stack.objects if digest_of(PORTRAIT) not in key]
        for key in keys:
            spoil(stack, key, None if way == "missing" else b"damage")
        async with serving(stack.settings()) as other:  # It has nothing cached.
            for call in (file(other, VOICE), derived(other), emotion(other)):
                with refused(grpc.StatusCode.INTERNAL, "stored object 'tenants/acme/") as refusal:
                    await call
                text = refusal.value.details() or ""
                assert any(f"{key!r} is damaged: it" in text for key in keys)
                assert ("it is missing" in text) == (way == "missing")
            assert await file(other, PORTRAIT) == PORTRAIT
            await put_derived(other, b"another")
            await put_emotion(other, b"sadder")
            await other.change(change_of(1, removed=[digest_of(VOICE)]), VOICE + b"2")
            assert [await derived_of(other, VOICE + b"2"), (await emotion(other))[1]] == [b"", b"sadder"]


async def derived_of(stubs: Stubs, content: bytes) -> bytes:
    """Return what was derived from a file; nothing when there is nothing."""
    try:
        return await derived(stubs, content)
    except grpc.aio.AioRpcError as error:
        assert error.code() is NOT_FOUND
        return b""


def spoil(stack: Stack, key: str, content: bytes | None) -> None:
    """Replace an object behind the memory's back; None removes it."""
    if isinstance(stack.bucket, Bucket):
        client, name = stack.bucket.client(), stack.bucket.name
        client.remove_object(name, key)
        if content is not None:
            client.put_object(name, key, BytesIO(content), len(content))
        return
    path = stack.folder / "media" / key
    path.unlink()
    if content is not None:
        path.write_bytes(content)


@pytest.mark.parametrize("what", ["file", "identity"])
async def test_a_file_that_goes_while_it_is_read_is_not_found_and_not_damaged(clustered: Stack, what: str) -> None:
    assert clustered.bucket
    proxy = S3Proxy(int(clustered.bucket.endpoint.rpartition(":")[2]))
    variables = s3_variables(clustered.bucket, proxy.endpoint)
    changes = {name.removeprefix("E3RG_MEMORY_").lower(): value for name, value in variables.items()}
    try:
        async with serving(clustered.settings()) as stubs, serving(clustered.settings(**changes)) as late:
            await stubs.add(parts(header(), PORTRAIT, VOICE, FILM))
            hold = Hold()
            proxy.requests = hold
            reading = asyncio.create_task(file(late, FILM))
            assert await asyncio.to_thread(hold.reached.wait, 20)
            if what == "file":
                await stubs.change(change_of(1, removed=[digest_of(FILM)]))
                assert stubs.upkeep
                await stubs.upkeep.sweep()
            else:
                request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="me")
                await stubs.erasure.EraseIdentity(request)
            proxy.requests = lambda _, piece: piece
            hold.release()
            with refused(NOT_FOUND, "has no file" if what == "file" else "identity 'ada' is unknown"):
                await reading
    finally:
        proxy.close()


async def test_an_emotional_reference_is_kept_as_it_was_put_until_it_is_replaced(stack: Stack) -> None:
    content = b"first line\nsecond\x00line\n" * 100_000
    place = {"generator": FACES, "name": "happy"}
    async with serving(stack.settings()) as stubs:
        reference = await put_emotion(stubs, content, media_type="application/x-prior", **place)
        expected = {"digest": digest_of(content), "size_bytes": len(content), "media_type": "application/x-prior"}
        assert reference == pb.EmotionReference(**place, **expected, own=False)  # type: ignore[arg-type]
        assert await emotion(stubs, **place) == (reference, content)
        assert await emotions_of(stubs) == [reference]
        other = await put_emotion(stubs, b"another", **place)
        assert (await emotion(stubs, **place), await emotions_of(stubs)) == ((other, b"another"), [other])
        assert stubs.upkeep
        await stubs.upkeep.sweep()
        assert len(stack.objects) == 1


async def emotions_of(stubs: Stubs, identity: str = "", tenant: str = TENANT) -> list[pb.EmotionReference]:
    request = pb.ListEmotionReferencesRequest(tenant=tenant, identity=identity)
    return list((await stubs.identities.ListEmotionReferences(request)).references)


async def test_an_identitys_own_emotional_reference_comes_before_its_tenants(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        sad, angry = await put_emotion(stubs, b"of all"), await put_emotion(stubs, b"of all", name="angry")
        assert await emotions_of(stubs, "ada") == [angry, sad]
        own = await put_emotion(stubs, b"her own", identity="ada")
        assert own.own
        assert (await emotion(stubs, identity="ada"))[1] == b"her own"
        assert (await emotion(stubs))[1] == b"of all"
        face = await put_emotion(stubs, b"her face", identity="ada", name="happy", generator=FACES)
        assert await emotions_of(stubs, "ada") == [face, angry, own]
        assert await emotions_of(stubs) == [angry, sad]
        await remove(stubs, identity="ada")
        assert await emotion(stubs, identity="ada") == (sad, b"of all")
        await remove(stubs)
        for identity, whose in (("ada", "identity 'ada' has"), ("", "the tenant has")):
            for call in (emotion(stubs, identity=identity), remove(stubs, identity=identity)):
                with refused(NOT_FOUND, f"{whose} no emotional reference for voice 'sad'; ListEmotionReferences tells"):
                    await call
        assert await emotions_of(stubs, "ada") == [face, angry]
        assert stubs.upkeep
        await stubs.upkeep.sweep()
        assert len(stack.objects) == 4


async def remove(stubs: Stubs, **fields: object) -> None:
    await stubs.identities.RemoveEmotionReference(pb.RemoveEmotionReferenceRequest(**named(fields)))


async def test_each_style_and_class_of_the_wheel_can_have_an_emotional_reference(embedded: Stack) -> None:
    wheel = emotions.load()
    async with serving(embedded.settings()) as stubs:
        await stubs.add(parts(header()))
        for generator, names in ((VOICES, wheel.styles), (FACES, wheel.classes)):
            for name in names:
                await put_emotion(stubs, b"x", identity="ada", generator=generator, name=name)
        assert len(await emotions_of(stubs, "ada")) == len(wheel.styles) + len(wheel.classes)


def bank(**changes: object) -> pb.PutEmotionBankRequest:
    fields = {"name": "calm", "face_classes": ["neutral", "sad"], "voice_styles": ["default", "whispering"], **changes}
    return pb.PutEmotionBankRequest(tenant=TENANT, bank=pb.EmotionBank(**fields))  # type: ignore[arg-type]


async def test_an_emotion_bank_is_what_the_identities_of_its_tenant_that_name_it_can_show(stack: Stack) -> None:
    head = header()
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(head))
        wheel = emotions.load()
        whole = pb.EmotionBank(name="default", face_classes=wheel.classes, voice_styles=wheel.styles)
        assert (await stubs.recall()).emotion_bank == whole
        await stubs.identities.PutEmotionBank(bank())
        changed = await stubs.change(change_of(1, emotion_bank="calm"))
        assert (changed.emotion_bank, (await get(stubs)).version) == ("calm", 2)
        assert (await stubs.recall()).emotion_bank == bank().bank
        await stubs.identities.PutEmotionBank(bank(voice_styles=["sad"]))
        assert list((await stubs.recall()).emotion_bank.voice_styles) == ["sad"]
        head.tenant, head.emotion_bank = "other", "calm"
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "header.emotion_bank: 'calm' is unknown; store it first"):
            await stubs.add(parts(head))
        await stubs.change(change_of(2, emotion_bank=""))
        assert (await stubs.recall()).emotion_bank == whole


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("name", {"name": "../x"}),
        ("name", {"name": "c\u0430lm"}),
        ("name", {"name": "default"}),
        ("face_classes", {"face_classes": []}),
        ("face_classes", {"face_classes": ["joyful"]}),
        ("face_classes", {"face_classes": ["happy", "sad", "happy"]}),
        ("voice_styles", {"voice_styles": []}),
        ("voice_styles", {"voice_styles": ["singing"]}),
    ],
)
async def test_a_bank_that_the_wheel_does_not_know_is_refused_with_the_field(
    embedded: Stack, field: str, changes: dict[str, object]
) -> None:
    async with serving(embedded.settings()) as stubs:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, f"emotion_bank.{field}: ") as refusal:
            await stubs.identities.PutEmotionBank(bank(**changes))
        assert (refusal.value.details() or "").isascii()
        assert set(await kept(stubs, embedded)) <= {"tenants", "tasks"}
