"""Clips of turns are kept, replaced, told of and handed out as the permissions say."""

import hashlib
from collections.abc import AsyncIterator
from io import BytesIO

import grpc
import pytest

from e3rg.memory.v1 import memory_pb2
from services.common import clients
from tests.serving import refused
from tests.support.conversations import allow, get_clip, listed, place, remember
from tests.support.memory import MIB, MP4, WAV, Stubs, each, header, parts, pieces, serving
from tests.support.stacks import Stack

INVALID = grpc.StatusCode.INVALID_ARGUMENT
SPEECH, VIDEO = memory_pb2.CLIP_KIND_SPEECH, memory_pb2.CLIP_KIND_VIDEO


@pytest.fixture
async def stubs(stack: Stack) -> AsyncIterator[Stubs]:
    """A memory with a turn of `ada`."""
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        await remember(stubs, 1)
        yield stubs


async def put(stubs: Stubs, content: bytes, pieced: list[bytes], **header: object) -> memory_pb2.Clip:
    values = {**place(), "turn": "turn-1", "kind": SPEECH, "size_bytes": len(content)} | header
    head = memory_pb2.PutClipRequest(header=memory_pb2.PutClipHeader(**values))
    requests = [head, *(memory_pb2.PutClipRequest(content=piece) for piece in pieced)]
    return (await clients.ask(stubs.memory.PutClip(), each(requests))).clip


async def test_clips_are_kept_told_of_and_sent_back_in_pieces(stubs: Stubs) -> None:
    contents = {SPEECH: WAV, VIDEO: MP4 + b"v" * 3 * MIB}
    for kind, content in contents.items():
        digest = hashlib.sha256(content).hexdigest()
        expected = memory_pb2.Clip(kind=kind, digest=digest, size_bytes=len(content))
        assert await stubs.put_clip(kind, content) == expected
    await remember(stubs, 2)
    last, first = await listed(stubs)
    assert {clip.kind: clip.size_bytes for clip in first.clips} == {k: len(each) for k, each in contents.items()}
    assert not last.clips
    for kind, content in contents.items():
        assert await get_clip(stubs, kind) == content


async def test_a_clip_takes_the_place_of_the_one_before_and_the_other_kind_stays(stubs: Stubs, stack: Stack) -> None:
    before = len(stack.objects)
    for content in (MP4 + b"first", MP4 + b"second", MP4 + b"second"):
        await stubs.put_clip(VIDEO, content)
    await stubs.put_clip(SPEECH, WAV)
    assert await get_clip(stubs, VIDEO) == MP4 + b"second"
    assert await get_clip(stubs, SPEECH) == WAV
    assert stubs.upkeep
    await stubs.upkeep.sweep()
    assert len(stack.objects) == before + 2


@pytest.mark.parametrize(
    ("uses", "handed_out"),
    [
        (("keep_turns",), ()),
        (("keep_turns", "clone_voice"), (SPEECH,)),
        (("keep_turns", "animate_face"), ()),  # A video speaks.
        (("clone_voice", "animate_face"), (SPEECH, VIDEO)),
    ],
)
async def test_a_clip_is_handed_out_while_its_likeness_is_allowed(
    stubs: Stubs, uses: tuple[str, ...], handed_out: tuple[int, ...]
) -> None:
    contents = {SPEECH: WAV, VIDEO: MP4}
    for kind, content in contents.items():
        await stubs.put_clip(kind, content)
    await allow(stubs, uses)
    for kind, content in contents.items():
        if kind in handed_out:
            assert await get_clip(stubs, kind) == content
            continue
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "there is no permission for"):
            await get_clip(stubs, kind)


async def test_without_the_permission_to_keep_turns_no_clip_is_kept(stubs: Stubs, stack: Stack) -> None:
    before = stack.objects
    await allow(stubs, ("clone_voice",))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "keep_turns"):
        await stubs.put_clip(SPEECH, WAV)
    assert stack.objects == before


@pytest.mark.parametrize(
    ("header", "content", "code", "text"),
    [
        ({}, MP4, INVALID, "send a WAV file"),
        ({}, b"RIFF\0\0\0\0AVI ", INVALID, "send a WAV file"),
        ({"kind": VIDEO}, WAV, INVALID, "send an MP4 file"),
        ({"kind": 0}, WAV, INVALID, "header.kind: 0 is unknown"),
        ({"size_bytes": 0}, b"", INVALID, "header.size_bytes: 0; declare"),
        ({"size_bytes": len(WAV) + 1}, WAV, INVALID, f"content: {len(WAV)} of {len(WAV) + 1} bytes came"),
        ({"size_bytes": 1}, WAV, INVALID, "content: "),
        ({"size_bytes": 64 * MIB + 1}, b"", INVALID, "header.size_bytes: "),
        ({"tenant": ""}, WAV, INVALID, "header.tenant: "),
        ({"turn": "turn-9"}, WAV, grpc.StatusCode.NOT_FOUND, "turn 'turn-9' is unknown"),
        ({"person": "eve"}, WAV, grpc.StatusCode.NOT_FOUND, "turn 'turn-1' is unknown"),
    ],
)
async def test_a_wrong_clip_is_refused_and_nothing_of_it_is_kept(
    stubs: Stubs, stack: Stack, header: dict[str, object], content: bytes, code: grpc.StatusCode, text: str
) -> None:
    before = stack.objects
    with refused(code, text):
        await put(stubs, content, [content], **header)
    assert stack.objects == before
    assert not (await listed(stubs))[0].clips


async def test_the_largest_clip_is_kept(stubs: Stubs) -> None:
    content = WAV + bytes(64 * MIB - len(WAV))
    assert (await put(stubs, content, list(pieces(content)))).size_bytes == 64 * MIB


@pytest.mark.parametrize("where", [{"turn_id": "turn-2"}, {"person": "eve"}, {}])
async def test_a_clip_that_there_is_not_is_not_found(stubs: Stubs, where: dict[str, str]) -> None:
    await stubs.put_clip(SPEECH, WAV)
    with refused(grpc.StatusCode.NOT_FOUND, "ListTurns"):
        await get_clip(stubs, VIDEO, **where)


@pytest.mark.parametrize("content", [WAV + b"!", None])
async def test_a_damaged_clip_is_not_handed_out_and_the_error_names_it(
    stubs: Stubs, stack: Stack, content: bytes | None
) -> None:
    before = stack.objects
    await stubs.put_clip(SPEECH, WAV)
    (key,) = set(stack.objects) - set(before)
    if stack.bucket:
        client = stack.bucket.client()
        client.remove_object(stack.bucket.name, key)
        if content:
            client.put_object(stack.bucket.name, key, BytesIO(content), len(content))
    elif content:
        (stack.folder / "media" / key).write_bytes(content)
    else:
        (stack.folder / "media" / key).unlink()
    with refused(grpc.StatusCode.INTERNAL, f"stored object '{key}' is damaged"):
        await get_clip(stubs, SPEECH)
    await stubs.put_clip(SPEECH, WAV)
    assert await get_clip(stubs, SPEECH) == WAV
