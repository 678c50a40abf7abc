"""`e3rg identity` without its changes: list, show, history, export, import, erase."""

import asyncio
import sys
from pathlib import Path

import pytest

from client import Client, command
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as pb
from services.common.errors import NotReady
from tests.fake_door import FakeDoor, Run
from tests.fake_identities import ARCHIVE_END, CHANGED_AT_S
from tests.fake_pages import digest_of
from tests.samples import png

PORTRAIT = png()


def identity(name: str, version: int = 1, **fields: object) -> pb.Identity:
    profile = common.Profile(
        name=name.capitalize(), age="young", gender="female", timbre="mid", language="en", about="Likes engines."
    )
    return pb.Identity(
        id=name,
        profile=profile,
        references=[
            pb.Reference(digest=digest_of(PORTRAIT), size_bytes=len(PORTRAIT), kind=pb.REFERENCE_KIND_PORTRAIT),
            pb.Reference(digest=digest_of(b"voice"), size_bytes=5, kind=pb.REFERENCE_KIND_VOICE),
        ],
        grants=[pb.Grant(use="animate_face", granted_by="Ada", granted_on="2026-01-31")],
        version=version,
        changed_at_s=CHANGED_AT_S,
        **fields,  # type: ignore[arg-type]
    )


def fill(door: FakeDoor, *names: str, tenant: str = "default") -> None:
    for name in names:
        door.identities[tenant, name] = [identity(name)]
    door.files[digest_of(PORTRAIT)] = PORTRAIT


async def test_all_pages_of_a_tenants_identities_are_listed_a_line_each(run: Run, door: FakeDoor) -> None:
    fill(door, "anna", "ben", "cleo", "dora", "emil")
    fill(door, "zoe", tenant="acme")
    status, printed, _ = await run("identity", "list")
    assert status == 0
    assert [line.split()[0] for line in printed.splitlines()] == ["anna", "ben", "cleo", "dora", "emil"]
    assert printed.splitlines()[0] == "anna             Anna         young        female   Likes engines."
    assert (await run("--tenant", "acme", "identity", "list"))[1].split()[0] == "zoe"


def damage(door: FakeDoor, *names: str) -> list[str]:
    """Damages identities; returns what is told of each."""
    for name in names:
        door.damaged["default", name] = f"stored object 'tenants/default/identities/{name}' is damaged: \x1b[2J"
    return [
        f"identity {name}: stored object 'tenants/default/identities/{name}' is damaged: \\x1b[2J" for name in names
    ]


async def test_a_listing_goes_past_damaged_identities_and_ends_with_what_is_wrong(run: Run, door: FakeDoor) -> None:
    fill(door, "anna", "ben", "cleo", "dora", "emil")
    told = damage(door, "anna", "cleo", "dora")  # those two are a page
    status, printed, complaint = await run("identity", "list")
    assert [line.split()[0] for line in printed.splitlines()] == ["ben", "emil"]
    assert (status, complaint.splitlines()) == (1, [f"e3rg: {line}" for line in told])


async def test_a_program_gets_all_others_and_is_warned_of_the_damaged(
    door: FakeDoor, caplog: pytest.LogCaptureFixture
) -> None:
    fill(door, "anna", "ben", "cleo")
    told = damage(door, "ben")
    with Client(door.address) as client:
        names = await asyncio.to_thread(lambda: [each.id for each in client.identities.all()])
    assert names == ["anna", "cleo"]
    assert [said.getMessage() for said in caplog.records] == [told[0].replace(":", " is left out:", 1)]


async def test_the_tenant_may_stand_in_the_environment(
    run: Run, door: FakeDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(door, "zoe", tenant="acme")
    monkeypatch.setenv("E3RG_TENANT", "acme")
    assert (await run("identity", "list"))[1].startswith("zoe ")


async def test_an_identity_is_shown_with_its_files_and_what_was_allowed(run: Run, door: FakeDoor) -> None:
    fill(door, "anna")
    kept = door.identities["default", "anna"][0]
    kept.profile.speaking_style = "warm"
    kept.grants.add(
        use="keep_turns", granted_by="Ada", granted_on="2026-02-01", until="2027-01-31", purpose="the museum"
    )
    status, printed, _ = await run("identity", "show", "anna")
    assert status == 0
    assert printed.splitlines() == [
        "anna: Anna, young, female, mid voice, en",
        "about      Likes engines.",
        "speaks     warm",
        "bank       default",
        "allowed    animate_face on 2026-01-31 by Ada",
        "allowed    keep_turns on 2026-02-01 by Ada, until 2027-01-31, for the museum",
        f"portrait   {digest_of(PORTRAIT)[:12]}  {len(PORTRAIT)} bytes",
        f"voice      {digest_of(b'voice')[:12]}  5 bytes",
        "version    1, of 2026-11-18 11:06:40 UTC",
    ]


async def test_the_picture_is_shown_on_a_terminal_that_can(
    run: Run, door: FakeDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(door, "anna")
    monkeypatch.setenv("TERM", "xterm-kitty")
    monkeypatch.delenv("TMUX", raising=False)
    assert "\x1b" not in (await run("identity", "show", "anna"))[1]  # it is no terminal
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert (await run("identity", "show", "anna"))[1].startswith("\x1b_Ga=T,f=100,")
    assert "\x1b" not in (await run("identity", "show", "anna", "--no-picture"))[1]


async def test_who_asks_for_a_picture_where_none_can_be_is_told_why(run: Run, door: FakeDoor) -> None:
    fill(door, "anna")
    status, printed, complaint = await run("identity", "show", "anna", "--picture")
    assert (status, complaint) == (0, "e3rg: no picture: standard output is no terminal\n")
    for words in ((), ("--no-picture",)):
        assert await run("identity", "show", "anna", *words) == (0, printed, "")


async def test_a_picture_that_may_not_be_shown_is_told_to_who_asks_for_it(
    run: Run, door: FakeDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(door, "anna")
    del door.identities["default", "anna"][0].grants[:]
    monkeypatch.setenv("TERM", "xterm-kitty")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    status, printed, complaint = await run("identity", "show", "anna", "--picture")
    assert (status, complaint) == (0, "e3rg: no picture: identity 'anna' does not allow animate_face\n")
    assert printed.startswith("anna: Anna")
    assert (await run("identity", "show", "anna")) == (0, printed, "")  # nobody asked for it
    assert "allowed    nothing\n" in printed


async def test_the_history_tells_what_changed_between_versions(run: Run, door: FakeDoor) -> None:
    fill(door, "anna")
    second, third = identity("anna", 2, emotion_bank="calm"), identity("anna", 3, emotion_bank="calm")
    second.profile.about = "Likes trains."
    second.grants.add(use="keep_turns", granted_by="Ada", granted_on="2026-02-01")
    del third.references[1]
    third.references.add(digest=digest_of(b"new"), size_bytes=3, kind=pb.REFERENCE_KIND_VOICE)
    third.profile.about = ""
    door.identities["default", "anna"] += [second, third]
    status, printed, _ = await run("identity", "history", "anna")
    assert status == 0
    assert printed.splitlines()[:2] == [
        "version 1, of 2026-11-18 11:06:40 UTC",
        "  anna: Anna, young, female, mid voice, en",
    ]
    later = printed.splitlines()[printed.splitlines().index("version 2, of 2026-11-18 11:06:40 UTC") :]
    assert later == [
        "version 2, of 2026-11-18 11:06:40 UTC",
        "  about: Likes engines. -> Likes trains.",
        "  bank: default -> calm",
        "  allowed keep_turns on 2026-02-01 by Ada",
        "version 3, of 2026-11-18 11:06:40 UTC",
        "  about: Likes trains. -> none",
        "  took back keep_turns",
        f"  removed voice {digest_of(b'voice')[:12]}",
        f"  added voice {digest_of(b'new')[:12]}",
    ]
    shown = (await run("identity", "show", "anna", "--version", "2"))[1]
    assert "about      Likes trains.\n" in shown


async def test_a_version_that_was_not_kept_is_said_to_be_that(run: Run, door: FakeDoor) -> None:
    door.identities["default", "anna"] = [identity("anna", 2)]
    status, printed, _ = await run("identity", "history", "anna")
    assert status == 0
    assert printed.splitlines()[:2] == [
        "version 1: version 1 of identity 'anna' is unknown",
        "version 2, of 2026-11-18 11:06:40 UTC",
    ]


async def test_an_identity_is_exported_into_a_file(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    fill(door, "anna")
    door.archive_parts = [b"a" * 70_000, b"z"]
    (tmp_path / "anna.tar").write_bytes(b"older")
    status, printed, _ = await run("identity", "export", "anna", tmp_path / "anna.tar")
    assert (status, printed) == (0, f"written {tmp_path / 'anna.tar'} (70001 bytes)\n")
    assert (tmp_path / "anna.tar").read_bytes() == b"a" * 70_000 + b"z"
    assert [path.name for path in tmp_path.iterdir()] == ["anna.tar"]


async def test_an_export_that_breaks_off_leaves_the_file_as_it_was(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    fill(door, "anna")
    door.archive_parts, door.archive_error = [b"a" * 70_000], NotReady("the store cannot be reached")
    (tmp_path / "anna.tar").write_bytes(b"older")
    status, _, complaint = await run("identity", "export", "anna", tmp_path / "anna.tar")
    assert (status, complaint) == (1, "e3rg: UNAVAILABLE: the store cannot be reached\n")
    assert (tmp_path / "anna.tar").read_bytes() == b"older"
    assert [path.name for path in tmp_path.iterdir()] == ["anna.tar"]


async def test_an_export_into_no_folder_is_refused_by_its_name(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    status, _, complaint = await run("identity", "export", "anna", tmp_path / "none" / "anna.tar")
    assert (status, complaint) == (1, f"e3rg: {tmp_path / 'none' / 'anna.tar'}: No such file or directory\n")
    status, _, complaint = await run("identity", "export", "anna", tmp_path)
    assert (status, complaint) == (1, f"e3rg: {tmp_path}: Is a directory\n")


async def test_an_archive_is_imported_under_its_own_or_another_id(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    archive = bytes(range(256)) * 3000 + ARCHIVE_END
    (tmp_path / "anna.tar").write_bytes(archive)
    assert (await run("identity", "import", tmp_path / "anna.tar"))[:2] == (0, "added anna\n")
    assert door.imported == archive
    assert (await run("identity", "import", tmp_path / "anna.tar", "--as", "bea"))[:2] == (0, "added bea\n")
    assert {name for _, name in door.identities} == {"anna", "bea"}


async def test_an_erasure_is_told_as_a_table(run: Run, door: FakeDoor) -> None:
    fill(door, "anna", tenant="acme")
    status, printed, _ = await run("--tenant", "acme", "identity", "erase", "anna", "--asked-by", "Ada", "--yes")
    assert status == 0
    assert printed.splitlines() == [
        "erased     identity anna, asked for by Ada",
        "                   rows         bytes",
        "conversations         1             0",
        "references            2         40000",
        "all                   3         40000",
        "begun      2026-11-18 11:06:40 UTC",
        "done       2026-11-18 11:06:41 UTC; no replica holds any of it after 2026-11-18 11:07:41 UTC",
        "record     a1",
    ]
    assert not door.identities


async def test_an_erasure_that_nobody_can_confirm_is_refused(run: Run, door: FakeDoor) -> None:
    fill(door, "anna")
    status, _, complaint = await run("identity", "erase", "anna", "--asked-by", "Ada")
    assert (status, complaint) == (
        1,
        "e3rg: nothing was erased: erasing identity anna of tenant default cannot be undone;"
        " say --yes when you mean it\n",
    )
    assert door.requests == []


@pytest.mark.parametrize(("answer", "erased"), [("\n", False), ("", False), ("n\n", False), ("y\n", True)])
async def test_on_a_terminal_an_erasure_asks_whether_it_is_meant(
    run: Run, door: FakeDoor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, erased: bool
) -> None:
    fill(door, "anna")
    (tmp_path / "typed").write_text(answer)
    with (tmp_path / "typed").open() as typed:
        monkeypatch.setattr(typed, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", typed)
        status, printed, complaint = await run("identity", "erase", "anna", "--asked-by", "Ada")
    assert "Erase identity anna of tenant default with all that was ever kept of it?" in printed
    assert (status == 0) is erased is (("default", "anna") not in door.identities)
    assert ("nothing was erased" in complaint) is not erased


async def test_what_others_wrote_cannot_command_the_terminal(run: Run, door: FakeDoor) -> None:
    fill(door, "anna")
    door.identities["default", "anna"][0].profile.about = "\x1b[2Jgone\r\n\u202eevil\x9b"
    for words in (["identity", "list"], ["identity", "show", "anna"]):
        printed = (await run(*words))[1]
        assert r"\x1b[2Jgone\r\n\u202eevil\x9b" in printed
        assert not {"\x1b", "\r", "\u202e", "\x9b"} & set(printed)
    _, _, complaint = await run("identity", "show", "\u202eanna")
    assert "\u202e" not in complaint
    assert "NOT_FOUND" in complaint


def test_an_identity_is_erased_and_not_removed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["identity", "remove", "anna"])
    assert end.value.code == 2
    assert "invalid choice: 'remove'" in capsys.readouterr().err
