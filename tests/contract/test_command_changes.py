"""`e3rg identity add` and `e3rg identity change`."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from client import command
from client.commands.arguments import USES
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as pb
from services.memory.domain import Use
from tests.fake_door import FakeDoor, Run
from tests.fake_pages import digest_of

WHO = ("--age", "young", "--gender", "female")
ALLOWED = ("--grant", "animate_face", "--grant", "clone_voice", "--granted-by", "Mina herself")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of an identity; what is in them is for the memory to judge."""
    for name in ("mina.png", "side.png", "mina.wav", "calm.wav", "mina.mp4"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "long.mp4").write_bytes(bytes(range(256)) * 5000)
    return tmp_path


def words_of(folder: Path, *more: str | Path) -> list[str | Path]:
    return ["identity", "add", "mina", "--portrait", folder / "mina.png", "--voice", folder / "mina.wav", *more]


async def test_a_portrait_and_a_voice_make_an_identity(run: Run, door: FakeDoor, folder: Path) -> None:
    days = {datetime.now(UTC).date().isoformat()}
    assert await run(*words_of(folder, *WHO, *ALLOWED)) == (0, "added mina\n", "")
    days.add(datetime.now(UTC).date().isoformat())
    (kept,) = door.identities["default", "mina"]
    assert kept.profile == common.Profile(name="Mina", age="young", gender="female", timbre="mid", language="en")
    assert [(grant.use, grant.granted_by, grant.until) for grant in kept.grants] == [
        ("animate_face", "Mina herself", ""),
        ("clone_voice", "Mina herself", ""),
    ]
    assert {grant.granted_on for grant in kept.grants} <= days
    assert [door.files[file.digest] for file in kept.references] == [b"mina.png", b"mina.wav"]
    status, _, complaint = await run(*words_of(folder, *WHO, *ALLOWED))
    assert (status, complaint.startswith("e3rg: ALREADY_EXISTS: identity 'mina' exists")) == (1, True)


async def test_all_that_there_is_about_an_identity_is_sent(run: Run, door: FakeDoor, folder: Path) -> None:
    files: list[str | Path] = [
        *("--film", folder / "long.mp4", "--voice", folder / "calm.wav", "--portrait", folder / "side.png"),
        *("--film", folder / "mina.mp4"),
    ]
    profile = [
        *("--name", "Mina M.", "--timbre", "low", "--language", "es"),
        *("--about", "Sings.", "--speaking-style", "warm and unhurried", "--bank", "calm"),
    ]
    grants = ["--grant", "infer_emotion:2027-01-31", "--granted-on", "2026-01-31", "--purpose", "the museum"]
    more = [*files, *WHO, *profile, *ALLOWED, *grants]
    assert (await run("--tenant", "acme", *words_of(folder, *more)))[0] == 0
    (kept,) = door.identities["acme", "mina"]
    assert kept.profile == common.Profile(
        name="Mina M.",
        age="young",
        gender="female",
        timbre="low",
        language="es",
        about="Sings.",
        speaking_style="warm and unhurried",
    )
    assert kept.emotion_bank == "calm"
    assert kept.grants[2] == pb.Grant(
        use="infer_emotion",
        granted_by="Mina herself",
        granted_on="2026-01-31",
        purpose="the museum",
        until="2027-01-31",
    )
    # By kind, and as they were named within it: the first portrait is the face.
    names = ["mina.png", "side.png", "mina.wav", "calm.wav", "long.mp4", "mina.mp4"]
    assert [door.files[file.digest] for file in kept.references] == [(folder / name).read_bytes() for name in names]


@pytest.mark.parametrize(
    ("name", "problem"), [("none.wav", "No such file or directory"), ("zero.wav", "the file is empty")]
)
async def test_a_file_that_is_not_there_or_empty_is_named_before_anything_is_sent(
    run: Run, door: FakeDoor, folder: Path, name: str, problem: str
) -> None:
    (folder / "zero.wav").touch()
    status, _, complaint = await run(*words_of(folder, "--voice", folder / name, *WHO, *ALLOWED))
    assert (status, complaint) == (1, f"e3rg: {folder / name}: {problem}\n")
    assert door.requests == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([*WHO, "--grant", "fame", "--granted-by", "Mina"], "argument --grant: 'fame' is unknown; use one of: animate"),
        ([*WHO, "--granted-by", "Mina"], "the following arguments are required: --grant"),
        ([*WHO, "--grant", "keep_turns"], "the following arguments are required: --granted-by"),
        ([*ALLOWED, "--age", "old", "--gender", "female"], "argument --age: invalid choice: 'old'"),
    ],
)
def test_words_that_make_no_identity_are_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        command.main([*map(str, words_of(tmp_path)), *words])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


def test_the_permissions_that_can_be_granted_are_those_of_the_memory() -> None:
    assert tuple(Use) == USES


@pytest.fixture
async def mina(run: Run, door: FakeDoor, folder: Path) -> list[pb.Identity]:
    """An identity behind the door, and all that it will become."""
    assert (await run(*words_of(folder, *WHO, *ALLOWED, "--granted-on", "2026-01-31", "--about", "Sings.")))[0] == 0
    return door.identities["default", "mina"]


async def test_only_what_is_named_changes_and_is_told(run: Run, mina: list[pb.Identity]) -> None:
    status, printed, _ = await run("identity", "change", "mina", "--about", "", "--speaking-style", "warm")
    assert status == 0
    assert printed.splitlines() == [
        "changed mina into version 2",
        "  about: Sings. -> none",
        "  speaking style: none -> warm",
    ]
    first, second = mina
    assert (second.profile.name, second.profile.about, second.profile.speaking_style) == ("Mina", "", "warm")
    assert (second.grants, second.references) == (first.grants, first.references)


async def test_what_is_so_already_is_said_to_be_that(run: Run, mina: list[pb.Identity]) -> None:
    told = await run("identity", "change", "mina", "--about", "Sings.", "--name", "Mina")
    assert told == (0, "nothing is different: mina is still at version 1\n", "")
    assert len(mina) == 1


async def test_files_come_and_go_by_the_beginning_of_their_digest(
    run: Run, door: FakeDoor, mina: list[pb.Identity], folder: Path
) -> None:
    old = digest_of(b"mina.png")
    status, printed, _ = await run(
        "identity", "change", "mina", "--remove", old[:8], "--add-portrait", folder / "side.png"
    )
    assert status == 0
    new = digest_of(b"side.png")
    assert printed.splitlines()[1:] == [f"  removed portrait {old[:12]}", f"  added portrait {new[:12]}"]
    assert {file.digest for file in mina[-1].references} == {new, digest_of(b"mina.wav")}
    status, _, complaint = await run("identity", "change", "mina", "--remove", "xyz")
    assert status == 1
    assert complaint.startswith("e3rg: 'xyz' is the beginning of 0 of mina's files: voice ")
    status, _, complaint = await run("identity", "change", "mina", "--remove", "")
    assert (status, "is the beginning of 2 of mina's files" in complaint) == (1, True)


async def test_permissions_are_given_renewed_and_taken_back(run: Run, mina: list[pb.Identity]) -> None:
    more = ["--grant", "keep_turns:2027-01-31", "--grant", "clone_voice", "--granted-by", "Ada"]
    status, printed, _ = await run(
        "identity", "change", "mina", "--revoke", "animate_face", *more, "--granted-on", "2026-02-01"
    )
    assert status == 0
    assert printed.splitlines()[1:] == [
        "  took back animate_face",
        "  allowed clone_voice on 2026-02-01 by Ada",
        "  allowed keep_turns on 2026-02-01 by Ada, until 2027-01-31",
    ]
    assert [grant.use for grant in mina[-1].grants] == ["clone_voice", "keep_turns"]
    status, _, complaint = await run("identity", "change", "mina", "--revoke", "animate_face")
    assert (status, complaint) == (1, "e3rg: mina does not allow animate_face; it allows clone_voice, keep_turns\n")


async def test_taking_all_back_is_not_the_same_as_leaving_it(run: Run, mina: list[pb.Identity]) -> None:
    await run("identity", "change", "mina", "--revoke", "animate_face", "--revoke", "clone_voice")
    assert [len(version.grants) for version in mina] == [2, 0]


async def test_who_has_seen_an_older_version_changes_nothing(run: Run, mina: list[pb.Identity]) -> None:
    assert (await run("identity", "change", "mina", "--version", "1", "--bank", "calm"))[0] == 0
    status, _, complaint = await run("identity", "change", "mina", "--version", "1", "--bank", "loud")
    assert (status, complaint) == (1, "e3rg: ABORTED: identity 'mina' is at version 2; read it again\n")
    assert mina[-1].emotion_bank == "calm"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "nothing would change; `e3rg identity change --help` says what can"),
        (["--grant", "keep_turns"], "--grant needs --granted-by: who allows that?"),
        (["--purpose", "fun"], "--granted-by, --granted-on and --purpose need --grant: what is allowed?"),
    ],
)
async def test_a_change_that_is_none_or_half_said_is_refused(
    run: Run, mina: list[pb.Identity], words: list[str], complaint: str
) -> None:
    assert await run("identity", "change", "mina", *words) == (1, "", f"e3rg: {complaint}\n")
    assert len(mina) == 1
