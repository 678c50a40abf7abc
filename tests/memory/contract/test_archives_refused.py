"""An archive that is not what an export wrote is refused, wherever it is wrong, and nothing of it is kept."""

import io
import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import replace

import grpc
import pytest

from e3rg.memory.v1 import identities_pb2 as pb
from services.common.tar import Member
from tests.fakes import PATIENCE_S
from tests.serving import refused
from tests.support.archives import OTHER, archive_of, content, filled, members
from tests.support.identities import imported, left
from tests.support.memory import MIB, pieces, serving
from tests.support.stacks import Stack

INVALID = grpc.StatusCode.INVALID_ARGUMENT
FIRST, SECOND = "versions/0000000001", "versions/0000000002"
Repack = Callable[[list[Member]], list[Member]]


def replaced(part: str, change: Callable[[bytes], bytes]) -> Repack:
    """Changes the content of the first member whose name has that part."""

    def repack(listed: list[Member]) -> list[Member]:
        first = next(member for member in listed if part in member.name)
        changed = change(first.content)
        assert changed != first.content
        return [replace(first, content=changed) if member is first else member for member in listed]

    return repack


def rewritten(part: str, old: bytes, new: bytes) -> Repack:
    return replaced(part, lambda content: content.replace(old, new, 1))


def told(name: str = "identity.json", **changes: object) -> Repack:
    """Changes fields of a version."""
    return replaced(name, lambda content: json.dumps(json.loads(content) | changes).encode())


def profiled(**changes: object) -> Repack:
    return told(FIRST, profile={"name": "A", "age": "young", "gender": "male", "timbre": "low"} | changes)


def granted(*changes: dict[str, object]) -> Repack:
    grant = {"use": "keep_turns", "granted_by": "Ada", "granted_on": "2026-11-22"}
    return told(FIRST, grants=[grant | change for change in changes])


def filed(portrait: dict[str, object], voice: dict[str, object] | None = None) -> Repack:
    files = ("portrait", "0" * 64, portrait), ("voice", "1" * 64, voice or {})
    return told(
        FIRST, references=[{"kind": kind, "digest": digest, "size_bytes": 9} | more for kind, digest, more in files]
    )


def added(name: str, content: bytes = b"x") -> Repack:
    return lambda listed: [*listed, Member(name, content)]


def without(part: str) -> Repack:
    return lambda listed: [member for member in listed if part not in member.name]


def renamed(old: str, new: str) -> Repack:
    return lambda listed: [replace(member, name=new) if member.name == old else member for member in listed]


def moved(part: str, before: str) -> Repack:
    """Puts the members whose names have that part before the first of the other."""

    def repack(listed: list[Member]) -> list[Member]:
        stay = [member for member in listed if part not in member.name]
        place = [before in member.name for member in stay].index(True)
        return [*stay[:place], *(member for member in listed if part in member.name), *stay[place:]]

    return repack


def put_before(part: str, member: Member) -> Repack:
    return lambda listed: moved(member.name, part)([*listed, member])


def raised_at(time: bytes) -> Repack:
    return replaced(
        "p-ann/risks/", lambda content: re.sub(rb'"raised_at_s":[0-9.e+]+', b'"raised_at_s":' + time, content)
    )


def said_at(time: bytes) -> Repack:
    return replaced("/turns/", lambda content: re.sub(rb'"said_at_s":[0-9.e+]+', b'"said_at_s":' + time, content))


MEMBERS: list[tuple[Repack, str]] = [
    # Which members there are, and in which order.
    (lambda listed: [], "does not begin with identity.json"),
    (lambda listed: listed[1:] + listed[:1], "does not begin with identity.json"),
    (lambda listed: [*listed, listed[0]], "'identity.json': it is there twice"),
    (lambda listed: [*listed, listed[9]], "it is there twice"),
    (lambda listed: listed[:1], "'references/[0-9a-f]{64}' is missing"),
    (lambda listed: [listed[0], *listed[2:]], "'references/.*' is missing, or stands after others"),
    (lambda listed: [listed[0], *listed[2:], listed[1]], "'references/.*' is missing, or stands after others"),
    (put_before(FIRST, Member(f"references/{'0' * 64}", b"x")), "is no file that identity.json names"),
    (added("../../etc/passwd"), r"'\.\./\.\./etc/passwd' is none that an export writes; remove it"),
    (added("people/../../x/turns/000000"), "is none that an export writes"),
    (added("/etc/passwd"), "is none that an export writes"),
    (added(f"references/{'0' * 64}\n"), "is none that an export writes"),
    (added("reference\u0455/" + "0" * 64), "cannot be read|is none that an export writes"),
    (added("people/p-ann/vectors/0"), "is none that an export writes"),
    (added(f"derived/portrait/{'0' * 64}-{'1' * 64}"), "is none that an export writes"),
    (added("emotions/voice/happy"), "'emotions/voice/happy' stands after others"),
    # Who it is.
    (told(version=5), "identity.json is of version 5, this memory reads 4; use the version that wrote it"),
    (told(format="a zoo"), "'identity.json' cannot be read: format"),
    (replaced("identity.json", lambda content: content[1:]), "'identity.json' cannot be read"),
    (told(profile={"name": "Ada"}), "'identity.json' cannot be read: profile"),
    (rewritten("identity.json", b'"young"', b'"ancient"'), r"identity.json.profile.age: .*'ancient'"),
    (told(id="../ada"), "identity: '../ada' is not a name"),
    (told(emotion_bank="none"), "'none' is unknown here; store that emotion bank first"),
    (told(grants=[]), "identity.json.grants: it is empty; nothing was allowed"),
    (told(references=[]), "identity.json.references: no portrait"),
    (
        rewritten("identity.json", b'"digest":"', b'"digest":"' + b"x" * 20_000),
        r"identity.json.references\[0\].digest: .{0,100} is not a SHA-256",
    ),
    # Media.
    (replaced("references/", lambda content: content + b"!"), "is not what identity.json says"),
    (put_before("exemplars/", Member("emotions/voice/grumpy", b"x", "audio/wav")), "'grumpy' is unknown"),
    (put_before("exemplars/", Member("emotions/voice/angry", b"x", "audio")), "'audio' is not a MIME type"),
    (put_before("exemplars/", Member("emotions/voice/angry", b"", "audio/wav")), "'emotions/voice/angry' is empty"),
    (replaced("/clips/", lambda content: b"GIF89a" + content), "begin with b'GIF89a"),
    (without("p-ann/turns/"), "of a turn that does not stand before it"),
    # Lines.
    (rewritten("exemplars/", b'"sad"', b'"meh"'), r"exemplars\[0\].user_emotion: 'meh' is unknown"),
    (replaced("/turns/", lambda content: content[:-1]), "has not 1 to 200 whole lines"),
    (replaced("/turns/", lambda content: content * 100), "has not 1 to 200 whole lines"),
    (rewritten("/turns/", b'"caring"', b'"meh"'), "turn.reply_emotion: 'meh'"),
    (rewritten("/turns/", b'"id":"turn-0"', b'"id":"../0"'), "turn.id: '../0'"),
    (rewritten("c-x/turns/", b'"conversation":"x"', b'"conversation":"y"'), "has turns of another conversation"),
    (rewritten("/turns/", b"0000000001-turn-0", b"0000000001-turn-5"), "is no place of turn 'turn-0'"),
    (said_at(b"NaN"), "said_at_s is nan, which is no Unix time|cannot be read"),
    (said_at(b"1e300"), r"said_at_s is 1e\+300"),
    # Risks.
    (added("people/p-ann/risks/1"), "'people/p-ann/risks/1' is none that an export writes"),
    (
        replaced("p-ann/risks/", lambda content: content[:-1]),
        "'people/p-ann/risks/000000' has not 1 to 200 whole lines",
    ),
    (replaced("p-ann/risks/", lambda content: content[1:]), "'people/p-ann/risks/000000' cannot be read"),
    (rewritten("p-ann/risks/", b'"kind":"medical"', b'"kind":"flu"'), "risks/000000' cannot be read: risk.kind"),
    (rewritten("p-ann/risks/", b'"severity":"medium"', b'"severity":"dire"'), "cannot be read: risk.severity"),
    (
        rewritten("p-ann/risks/", b'"id":"risk-', b'"id":"../risk-'),
        r"p-ann/risks/000000: id: '\.\./risk-\d' is not a name",
    ),
    (
        rewritten("p-ann/risks/", b'"conversation":"', b'"conversation":"../'),
        r"000000: conversation: '\.\./walk' is not a name",
    ),
    (raised_at(b"NaN"), "raised_at_s is nan, which is no Unix time|cannot be read"),
    (raised_at(b"-1"), "'people/p-ann/risks/000000': raised_at_s is -1.0, which is no Unix time"),
    (raised_at(b"1e300"), r"raised_at_s is 1e\+300"),
    (renamed("people/p-ann/risks/000000", "people/c-x/risks/000000"), "'people/c-x/risks/000000' has risks of another"),
]

HISTORY: list[tuple[Repack, str]] = [
    (without("versions/"), f"'{FIRST}' is missing, or stands after others"),
    (without(FIRST), f"'{SECOND}' stands where '{FIRST}' is expected"),
    (without("versions/0000000004"), "'versions/0000000004' is missing"),
    (without("versions/0000000003"), "'versions/0000000004' stands where 'versions/0000000003' is"),
    (moved(SECOND, FIRST), f"'{SECOND}' stands where '{FIRST}' is expected"),
    (moved("emotions/", FIRST), f"'{FIRST}' is missing, or stands after others"),
    (moved("versions/", "references/"), "'references/.*' is missing, or stands after others"),
    (
        put_before("emotions/", Member("versions/0000000005", b"x")),
        "'versions/0000000005' is not before version 5, of which identity.json is",
    ),
    (told(identity_version=4), "'versions/0000000004' is not before version 4"),
    (told(identity_version=10_000), "'versions/0000000005' is missing"),
    (renamed(FIRST, "versions/0000000000"), f"stands where '{FIRST}' is expected"),
    (renamed(FIRST, "versions/1"), "'versions/1' is none that an export writes"),
    (renamed(FIRST, "versions/000000000\u0661"), "cannot be read|is none that an export writes"),
    (told(FIRST, identity_version=2), f"{FIRST}.identity_version: 2; its name says 1"),
    (told(FIRST, identity_version="one"), f"'{FIRST}' cannot be read: identity_version"),
    (told(identity_version=10_001), "identity_version: Input should be less than"),
    (told(identity_version=10**4000), "cannot be read: .{0,200}$"),
    (told(identity_version=0), "identity_version: Input should be greater than"),
    (told(FIRST, changed_at_s=1e300), f"'{FIRST}' cannot be read: changed_at_s"),
    (told(FIRST, changed_at_s=float("nan")), "cannot be read: changed_at_s"),
    (told(changed_at_s=float("nan")), "cannot be read: changed_at_s"),
    (told(FIRST, changed_at_s=-1), "cannot be read: changed_at_s"),
    (told(FIRST, changed_at_s=None), f"{FIRST}.changed_at_s: it is missing"),
    (told(FIRST, format="a zoo"), f"'{FIRST}' cannot be read: format"),
    (told(FIRST, version=5), f"{FIRST} is of version 5, this memory reads 4"),
    (told(FIRST, profile=None), f"'{FIRST}' cannot be read: profile"),
    (told(FIRST, more="x" * 2**16), f"'{FIRST}' has 6[0-9]+ bytes; at most 65536 are allowed"),
    (profiled(name="A\nB", language="en"), rf"{FIRST}.profile.name: 'A\\nB' has line breaks"),
    (profiled(language="x" * 9000), f"{FIRST}.profile.language: .{{,100}} is not a lang"),
    (granted({"use": "sell"}), rf"{FIRST}.grants\[0\].use: 'sell' is unknown"),
    (granted({"until": "2026-02-30"}), rf"{FIRST}.grants\[0\].until: '2026-02-30' is not a date"),
    (granted({"granted_by": ""}), rf"{FIRST}.grants\[0\].granted_by: it is empty"),
    (granted({}, {}), rf"{FIRST}.grants\[1\].use: 'keep_turns' is there twice"),
    (told(FIRST, emotion_bank="../x"), rf"{FIRST}.emotion_bank: '\.\./x' is not a name"),
    (told(FIRST, references=[]), f"{FIRST}.references: no portrait"),
    (filed({"digest": "../x"}), rf"{FIRST}.references\[0\].digest: .* is not a SHA-256"),
    (filed({"digest": "c" * 64}, {"digest": "c" * 64}), f"{FIRST}.references: a file is there twice"),
    (filed({"size_bytes": 0}), rf"{FIRST}.references\[0\]: the portrait is empty"),
    (filed({"size_bytes": 2**40}), rf"{FIRST}.references\[0\]: the portrait has 1099511627776 bytes"),
    (
        rewritten(FIRST, b'"size_bytes":5012', b'"size_bytes":5011'),
        r"references\[1\]: it is not what identity.json",
    ),
]


@pytest.mark.parametrize("cases", [MEMBERS, HISTORY], ids=["members", "history"])
async def test_a_wrong_member_is_named_and_nothing_is_kept(stack: Stack, cases: list[tuple[Repack, str]]) -> None:
    async with serving(stack.settings(), orphan_s=-60) as stubs:
        listed = members(await filled(stubs))
        before = await left(stubs, stack)
        for repack, problem in cases:
            with refused(INVALID) as refusal:
                await imported(stubs, archive_of(repack(list(listed))))
            text = refusal.value.details() or ""
            assert re.search(problem, text), (problem, text[:300])
            assert len(text) < 1000
            assert await left(stubs, stack) == before, problem


async def test_a_byte_that_is_another_anywhere_is_refused_or_changes_nothing(embedded: Stack) -> None:
    async with serving(embedded.settings(), orphan_s=-60) as stubs:
        archive = await filled(stubs)
        whole, before = await content(stubs), await left(stubs, embedded)
        step, refusals = len(archive) // 30, 0
        headers = [found.start() for found in re.finditer(rb"ustar", archive)]
        for place in [
            *range(0, len(archive), step),
            *(at - 200 for at in headers[:6]),
            *(at + 9 for at in headers[::5]),
        ]:
            changed = archive[:place] + bytes([archive[place] ^ 1]) + archive[place + 1 :]
            name = f"a{place}"
            try:
                await imported(stubs, changed, name=name)
            except grpc.aio.AioRpcError as error:
                assert error.code() is INVALID
                assert await left(stubs, embedded) == before
                refusals += 1
            else:  # It was in what fills a block.
                assert await content(stubs, name, OTHER) == whole
                before = await left(stubs, embedded)
        assert refusals > 25


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
async def test_links_folders_and_devices_are_refused(embedded: Stack, kind: bytes) -> None:
    info = tarfile.TarInfo("identity.json")
    info.type, info.linkname = kind, "/etc/passwd"
    async with serving(embedded.settings()) as stubs:
        with refused(INVALID, "it is no plain file: links, folders and devices are refused"):
            await imported(stubs, info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
        assert not await left(stubs, embedded)


async def test_an_archive_of_another_program_has_no_seals_and_is_refused(embedded: Stack) -> None:
    async with serving(embedded.settings()) as stubs:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            for member in members(await filled(stubs)):
                info = tarfile.TarInfo(member.name)
                info.size = len(member.content)
                tar.addfile(info, io.BytesIO(member.content))
        with refused(INVALID, "'identity.json': its seal is not the one of its pax header"):
            await imported(stubs, file.getvalue())


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [("identity.json", MIB + 1), (f"references/{'0' * 64}", 64 * MIB + 1), ("people/p-a/turns/000000", 2**40)],
)
async def test_a_member_that_is_too_large_is_refused_before_it_is_sent(
    embedded: Stack, name: str, size_bytes: int
) -> None:
    info = tarfile.TarInfo(name)
    info.size = size_bytes
    async with serving(embedded.settings(), orphan_s=-60) as stubs:
        archive = await filled(stubs)
        before = await left(stubs, embedded)
        start = archive[: archive.index(b"references/") // 512 * 512 - 1024] if name != "identity.json" else b""
        call = stubs.identities.ImportIdentity(timeout=PATIENCE_S)
        await call.write(pb.ImportIdentityRequest(header=pb.ImportIdentityHeader(tenant=OTHER)))
        for piece in pieces(start + info.tobuf(tarfile.GNU_FORMAT)):
            await call.write(pb.ImportIdentityRequest(content=piece))
        with refused(INVALID, f"its member '{name}' has {size_bytes} bytes; at most"):
            await call
        assert await left(stubs, embedded) == before
