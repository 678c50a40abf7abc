"""An archive that is not what an export wrote is refused, wherever it is wrong, and nothing of it is kept."""

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from services.common.errors import InvalidRequest, TooLarge
from services.common.tar import Member, packed
from tests.archiving import OTHER, PORTRAIT, House, members
from tests.talking import TENANT


@pytest.fixture
def house() -> House:
    made = House()
    made.fill()
    return made


def test_a_stream_that_breaks_anywhere_leaves_nothing(house: House) -> None:
    archive = house.exported()
    other = House()
    for end in [*range(0, len(archive), 512), *range(1, len(archive), 4999), len(archive) - 1]:
        with pytest.raises(InvalidRequest, match=r"^archive: it ends too early|^archive: it does not begin"):
            other.imported(archive[:end])
        assert other.store.objects == {}

    def broken() -> Iterator[bytes]:
        yield archive[: len(archive) // 2]
        raise ConnectionError("the line is cut")

    with pytest.raises(ConnectionError):
        other.archive.import_(OTHER, "", broken())
    assert other.store.objects == {}


def test_a_byte_that_is_another_anywhere_is_refused_or_changes_nothing(house: House) -> None:
    archive = house.exported()
    content = house.content()
    for place in range(0, len(archive), 331):
        other = House()
        changed = archive[:place] + bytes([archive[place] ^ 1]) + archive[place + 1 :]
        try:
            other.imported(changed, TENANT)
        except (InvalidRequest, TooLarge):
            assert other.store.objects == {}
        else:
            assert other.content() == content


Repack = Callable[[list[Member]], list[Member]]


def replaced(part: str, change: Callable[[bytes], bytes]) -> Repack:
    def repack(listed: list[Member]) -> list[Member]:
        names = [member.name for member in listed if part in member.name]
        assert names
        return [replace(each, content=change(each.content)) if each.name == names[0] else each for each in listed]

    return repack


def added(*names: str, content: bytes = b"x") -> Repack:
    return lambda listed: [*listed, *(Member(name, content) for name in names)]


def put_before(part: str, member: Member) -> Repack:
    def repack(listed: list[Member]) -> list[Member]:
        place = [part in each.name for each in listed].index(True)
        return [*listed[:place], member, *listed[place:]]

    return repack


def without(part: str) -> Repack:
    return lambda listed: [member for member in listed if part not in member.name]


def about(**changes: object) -> Repack:
    return replaced("identity.json", lambda content: json.dumps(json.loads(content) | changes).encode())


def said_at(time: str) -> Repack:
    return replaced(
        "/turns/", lambda content: re.sub(rb'"said_at_s":[0-9.e+]+', b'"said_at_s":' + time.encode(), content)
    )


REFUSED: dict[str, tuple[Repack, str]] = {
    "nothing": (lambda listed: [], "does not begin with identity.json"),
    "who it is not first": (lambda listed: listed[1:] + listed[:1], "does not begin with identity.json"),
    "who it is twice": (lambda listed: [*listed, listed[0]], "'identity.json': it is there twice"),
    "a member twice": (lambda listed: [*listed, listed[5]], "it is there twice"),
    "a newer version": (about(version=3), "is of version 3, this memory reads 2"),
    "another format": (about(format="a zoo"), "'identity.json' cannot be read: format"),
    "no JSON": (replaced("identity.json", lambda content: content[1:]), "'identity.json' cannot be read"),
    "a wrong profile": (about(profile={"name": "Ada"}), "'identity.json' cannot be read: profile"),
    "an old child": (
        replaced("identity.json", lambda content: content.replace(b'"young"', b'"ancient"')),
        r"identity.json.profile.age: .*'ancient'",
    ),
    "a wrong name": (about(id="../ada"), "identity: '../ada' is not a name"),
    "an unknown bank": (about(emotion_bank="calm"), "'calm' is unknown here; store that emotion bank first"),
    "no permissions": (about(grants=[]), "nothing was allowed"),
    "no files": (about(references=[]), "identity.json.references: .*portrait"),
    "a missing file": (lambda listed: [listed[0], *listed[2:]], "'references/.*' is missing"),
    "a file after others": (lambda listed: [listed[0], *listed[2:], listed[1]], "stands after others"),
    "another file": (replaced("references/", lambda content: PORTRAIT), "is not what identity.json says"),
    "a file that nobody names": (added(f"references/{'0' * 64}"), "is no file that identity.json names"),
    "a path upwards": (added("../../etc/passwd"), r"'\.\./\.\./etc/passwd' is none that an export writes"),
    "a path upwards within": (added("people/../../x/turns/000000"), "is none that an export writes"),
    "an absolute path": (added("/etc/passwd"), "is none that an export writes"),
    "a look-alike": (added("referenceѕ/" + "0" * 64), "cannot be read|is none that an export writes"),  # noqa: RUF001
    "a line feed": (added(f"references/{'0' * 64}\n"), "is none that an export writes"),
    "vectors": (added("people/p-ann/vectors/0"), "is none that an export writes"),
    "an archive without its files": (lambda listed: listed[:1], "references/[0-9a-f]{64}' is missing"),
    "a digest that is none": (
        replaced("identity.json", lambda content: content.replace(b'"digest":"', b'"digest":"' + b"x" * 20_000, 1)),
        r"identity.json.references\[0\].digest: .{0,100} is not a SHA-256",
    ),
    "an emotion after others": (added("emotions/voice/sad"), "'emotions/voice/sad' stands after others"),
    "an unknown emotion": (put_before("exemplars/", Member("emotions/voice/grumpy", b"x")), "'grumpy' is unknown"),
    "what a model is said to have derived": (
        added(f"derived/portrait/{'0' * 64}-{'1' * 64}"),
        "is none that an export writes",
    ),
    "a turn cut in two": (replaced("/turns/", lambda content: content[:-1]), "whole lines"),
    "a turn of no emotion": (
        replaced("/turns/", lambda content: content.replace(b'"caring"', b'"meh"')),
        "turn.reply_emotion: 'meh'",
    ),
    "a turn elsewhere": (
        replaced("c-x/turns/", lambda content: content.replace(b'"conversation":"x"', b'"conversation":"y"')),
        "of another conversation",
    ),
    "a turn at a wrong place": (
        replaced("/turns/", lambda content: content.replace(b"9999999999-turn-0", b"9999999999-turn-5")),
        "is no place of turn",
    ),
    "a turn of no time": (said_at("NaN"), "said_at_s is nan"),
    "a turn of a time that no clock shows": (said_at("1e300"), r"said_at_s is 1e\+300"),
    "a turn at the end of all places": (
        replaced("/turns/", lambda content: content.replace(b"9999999999-turn-0", b"0000000000-turn-0")),
        "0000000000-turn-0",
    ),
    "a clip of no turn": (without("p-ann/turns/"), "of a turn that does not stand before it"),
    "a clip of a wrong kind": (replaced("/clips/", lambda content: b"GIF89a" + content), "begin with b'GIF89a"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_wrong_member_is_named_and_nothing_is_kept(house: House, case: str) -> None:
    repack, problem = REFUSED[case]
    archive = b"".join(packed(repack(members(house.exported()))))
    other = House()
    with pytest.raises(InvalidRequest, match=problem):
        other.imported(archive)
    assert other.store.objects == {}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_folders_and_devices_are_refused(house: House, kind: bytes) -> None:
    archive = house.exported()
    info = tarfile.TarInfo(f"references/{'0' * 64}")
    info.type, info.linkname = kind, "/etc/passwd"
    other = House()
    with pytest.raises(InvalidRequest, match="no plain file"):
        other.imported(archive[:-1024] + info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
    assert other.store.objects == {}


def test_a_member_without_the_digest_of_its_content_is_refused(house: House) -> None:
    listed = members(house.exported())
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for member in listed:
            info = tarfile.TarInfo(member.name)
            info.size = len(member.content)
            tar.addfile(info, io.BytesIO(member.content))
    with pytest.raises(InvalidRequest, match=r"'identity.json': its seal is not the one"):
        house.imported(file.getvalue())


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [("identity.json", 2**20 + 1), (f"references/{'0' * 64}", 2**26 + 1), ("people/p-a/turns/000000", 2**40)],
)
def test_a_member_that_is_too_large_is_refused_before_it_is_read(house: House, name: str, size_bytes: int) -> None:
    whole = house.exported()
    read: list[int] = []

    def endless() -> Iterator[bytes]:
        if name != "identity.json":
            yield whole[: whole.index(b"references/") // 512 * 512]
        info = tarfile.TarInfo(name)
        info.size = size_bytes
        yield info.tobuf(tarfile.GNU_FORMAT)
        while True:
            read.append(1)
            yield bytes(2**20)

    other = House()
    with pytest.raises(TooLarge, match=f"'{name}' has {size_bytes} bytes; at most"):
        other.archive.import_(OTHER, "", endless())
    assert (read, other.store.objects) == ([], {})
