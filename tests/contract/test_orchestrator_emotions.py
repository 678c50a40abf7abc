"""No recording, picture or film of an emotion gets through the door that voice and face have not looked at."""

from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import pytest

from e3rg.memory.v1 import identities_pb2 as pb
from orchestrator.identities import EMOTION_BYTES_MAX
from services.common.errors import BackendFailed
from services.memory.checks import EMOTION_BYTES_MAX as BYTES_MAX
from tests.deployment import PORTRAIT, VOICE
from tests.door import TENANT, Door, addition, opened
from tests.fakes import Gate, fail
from tests.samples import film, png
from tests.serving import CallLog, refused
from tests.support.archives import archive_of, members

INVALID = grpc.StatusCode.INVALID_ARGUMENT
VOICES, FACES = pb.GENERATOR_VOICE, pb.GENERATOR_FACE
SILENT = VOICE[:44] + bytes(len(VOICE) - 44)
FACELESS = png(colour=(0, 0, 0))
README = b"# What this is\n" * 100
CHECKS = {"CheckVoice", "CheckPortrait", "CheckFilm"}


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as door:
        yield door


def request(
    content: bytes, generator: pb.Generator = VOICES, media_type: str = "audio/wav", size_bytes: int | None = None
) -> list[pb.PutEmotionReferenceRequest]:
    header = pb.PutEmotionReferenceHeader(
        tenant=TENANT,
        identity="ada",
        generator=generator,
        name="sad",
        media_type=media_type,
        size_bytes=len(content) if size_bytes is None else size_bytes,
    )
    pieces = (content[start : start + 1000] for start in range(0, len(content), 1000))
    return [
        pb.PutEmotionReferenceRequest(header=header),
        *(pb.PutEmotionReferenceRequest(content=piece) for piece in pieces),
    ]


def test_the_door_takes_what_the_memory_takes() -> None:
    assert EMOTION_BYTES_MAX == BYTES_MAX


async def put(door: Door, parts: list[pb.PutEmotionReferenceRequest]) -> pb.EmotionReference:
    return (await door.memory.identities.PutEmotionReference(iter(parts), timeout=20)).reference


@pytest.mark.parametrize(
    ("generator", "media_type", "content", "check"),
    [
        (VOICES, "audio/wav", VOICE, "CheckVoice"),
        (FACES, "image/png", PORTRAIT, "CheckPortrait"),
        (FACES, "video/mp4", film(), "CheckFilm"),
        (FACES, "application/octet-stream", README, ""),
        (FACES, "application/x-safetensors", b"\x08" + bytes(7) + b"{}" * 4, ""),
    ],
)
async def test_what_shows_an_emotion_is_looked_at_once_and_kept_as_it_is(
    door: Door, calls: CallLog, generator: pb.Generator, media_type: str, content: bytes, check: str
) -> None:
    del calls.calls[:]
    kept = await put(door, request(content, generator, media_type))
    assert (kept.size_bytes, kept.media_type, kept.own) == (len(content), media_type, True)
    assert [call.method for call in calls.calls if call.method in CHECKS] == [check] * bool(check)
    asked = pb.GetEmotionReferenceRequest(tenant=TENANT, identity="ada", generator=generator, name="sad")
    got = [part.content async for part in door.memory.identities.GetEmotionReference(asked)]
    assert b"".join(got) == content


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (request(README), "content: voice: not a PCM WAV file"),
        (request(README, media_type="application/octet-stream"), "content: voice: not a PCM WAV file"),
        (request(SILENT), "content: voice: it is silent"),
        (request(FACELESS, FACES, "image/png"), "content: portrait: no face in it"),
        (request(FACELESS, FACES, "image/jpg"), "content: portrait: no face in it"),
        (request(README, FACES, "image/jpeg"), f"content: portrait: {len(README)} bytes that are no JPEG or PNG"),
        (request(README, FACES, "video/mp4"), "content: film: "),
        (request(README, FACES, "video/webm"), "content: film: "),
        (request(VOICE)[:-1], f"content: {len(VOICE) // 1000 * 1000} of {len(VOICE)} bytes came"),
        (request(VOICE + b"x", size_bytes=len(VOICE)), "content: more bytes came than are declared"),
        (request(b""), "header.size_bytes: 0; send 1 to 16777216"),
        (request(b"x", size_bytes=(16 << 20) + 1), "header.size_bytes: 16777217; send 1 to 16777216"),
        (request(VOICE)[:1] * 2, "part: header is out of order"),
        (request(VOICE, pb.GENERATOR_UNSPECIFIED), "generator"),
        (request(VOICE)[1:], "header: missing"),
        ([], "header: missing"),
    ],
)
async def test_what_cannot_be_used_is_refused_and_the_one_before_it_stays(
    door: Door, parts: list[pb.PutEmotionReferenceRequest], text: str
) -> None:
    await put(door, request(VOICE))
    before = await door.kept()
    with refused(INVALID, text):
        await put(door, parts)
    await door.unchanged(before)


def altered(archive: bytes, content: bytes, media_type: str, name: str = "emotions/voice/sad") -> bytes:
    """An archive with another emotional reference, as somebody makes it who knows the format."""
    listed = [replace(each, content=content) if each.name == name else each for each in members(archive)]
    return archive_of(replace(each, media_type=media_type) if each.name == name else each for each in listed)


@pytest.mark.parametrize("piece_bytes", [1000, 1 << 20])
@pytest.mark.parametrize("media_type", ["audio/wav", "application/octet-stream"])
async def test_what_is_in_an_archive_is_looked_at_too(door: Door, media_type: str, piece_bytes: int) -> None:
    change = pb.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=1, emotion_bank="default")
    change.profile.CopyFrom(addition()[0].header.profile)
    change.profile.about = "She keeps archives."
    await door.memory.change(change)
    await put(door, request(VOICE))
    await put(door, request(README, FACES, "application/octet-stream"))
    await door.say("My dog is ill.")
    archive, before = await door.exported(), await door.kept()
    for content, text in ((README, "not a PCM WAV file"), (SILENT, "it is silent")):
        with refused(INVALID, f"archive: emotions/voice/sad: voice: {text}"):
            await door.imported(altered(archive, content, media_type), piece_bytes=piece_bytes)
    face = altered(archive, README, "image/png", "emotions/face/sad")
    with refused(INVALID, "archive: emotions/face/sad: portrait: "):
        await door.imported(face, piece_bytes=piece_bytes)
    await door.unchanged(before)
    assert (await door.imported(archive, piece_bytes=piece_bytes)).version == 2


async def test_what_is_looked_at_stands_before_all_that_is_not(door: Door) -> None:
    await put(door, request(VOICE))
    await door.say("My dog is ill.")
    listed = members(altered(await door.exported(), README, "audio/wav"))
    late = sorted(listed, key=lambda each: each.name.startswith("emotions/"))
    with refused(INVALID, "archive: its member 'emotions/voice/sad' stands after others"):
        await door.imported(archive_of(late))


async def test_a_look_that_fails_keeps_nothing(door: Door) -> None:
    before = await door.kept()
    door.cast.voice.before = fail(BackendFailed("secret"))
    with refused(grpc.StatusCode.INTERNAL, "internal error"):
        await put(door, request(VOICE))
    await door.unchanged(before)


async def test_cancelling_ends_the_look_and_keeps_nothing(door: Door, calls: CallLog) -> None:
    before = await door.kept()
    door.cast.voice.before = gate = Gate("check")
    call = door.memory.identities.PutEmotionReference(iter(request(VOICE)), timeout=20)
    await gate.reached()
    call.cancel()
    assert [ended.status for ended in await calls.ended("CheckVoice")] == ["CANCELLED"]
    gate.open()
    await door.unchanged(before)
