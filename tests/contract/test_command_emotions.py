"""`e3rg emotion` and `e3rg exemplar`."""

from pathlib import Path

import pytest

from client import command
from e3rg.memory.v1 import exemplars_pb2 as exemplars
from e3rg.memory.v1 import identities_pb2 as pb
from tests.fake_door import FakeDoor, Run
from tests.fake_pages import digest_of

EXAMPLES = """
[[exemplar]]
user_text = "I lost my job."
user_emotion = "sad"
reply_text = "That must be hard."

[[exemplar]]
user_text = "We won!"
user_emotion = "joyful"
reply_text = "Wonderful!"

[[exemplar]]
user_text = "I am alone."
user_emotion = "lonely"
reply_text = "I am here."
"""


async def test_an_emotional_reference_is_kept_listed_read_and_removed(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    (tmp_path / "calm.wav").write_bytes(b"softly")
    line = f"voice  friendly     the tenant's         6 bytes  audio/wav  {digest_of(b'softly')[:12]}\n"
    kept = await run("emotion", "put", "voice", "friendly", tmp_path / "calm.wav")
    assert kept == (0, f"kept {line}", "")
    assert await run("emotion", "list") == (0, line, "")
    copy = tmp_path / "copy.wav"
    assert await run("emotion", "get", "voice", "friendly", copy) == (0, f"written {copy} (6 bytes)\n", "")
    assert copy.read_bytes() == b"softly"
    assert await run("emotion", "remove", "voice", "friendly") == (0, "removed voice friendly\n", "")
    status, _, complaint = await run("emotion", "get", "voice", "friendly", tmp_path / "none.wav")
    assert (status, complaint) == (1, "e3rg: NOT_FOUND: there is no emotional reference 'friendly'\n")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["calm.wav", "copy.wav"]


async def test_an_identity_has_emotional_references_of_its_own(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    (tmp_path / "happy.prior").write_bytes(b"smile")
    words = ["emotion", "put", "face", "happy", tmp_path / "happy.prior", "--identity", "anna"]
    status, _, complaint = await run(*words)
    assert status == 1
    assert complaint.endswith("happy.prior: its name does not tell its MIME type; give --media-type\n")
    assert (await run(*words, "--media-type", "application/x-npy"))[0] == 0
    assert door.requests == [
        pb.PutEmotionReferenceHeader(
            tenant="default",
            identity="anna",
            generator=pb.GENERATOR_FACE,
            name="happy",
            media_type="application/x-npy",
            size_bytes=5,
        )
    ]
    assert "happy        its own " in (await run("emotion", "list", "--identity", "anna"))[1]
    assert (await run("emotion", "list"))[1] == ""


@pytest.mark.parametrize("words", [["emotion", "--help"], ["emotion", "put", "--help"]])
def test_the_help_says_that_no_back_end_reads_emotional_references(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command._parser().parse_args(words)
    assert "No back-end, embedded or not, reads emotional references yet" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("suffix", "media_type"), [("wav", "audio/wav"), ("JPG", "image/jpeg"), ("png", "image/png"), ("mp4", "video/mp4")]
)
async def test_the_name_of_a_file_that_is_looked_at_tells_its_type(
    run: Run, door: FakeDoor, tmp_path: Path, suffix: str, media_type: str
) -> None:
    file = tmp_path / f"happy.{suffix}"
    file.write_bytes(b"smile")
    assert (await run("emotion", "put", "face", "happy", file))[0] == 0
    assert [each.media_type for each in door.requests] == [media_type]


async def test_an_emotion_bank_is_stored_from_a_file(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    file = tmp_path / "calm.toml"
    file.write_text('name = "calm"\nface_classes = ["neutral", "happy"]\nvoice_styles = ["friendly"]\n')
    assert await run("emotion", "bank", file) == (0, "stored calm\n", "")
    assert door.banks["default", "calm"] == pb.EmotionBank(
        name="calm", face_classes=["neutral", "happy"], voice_styles=["friendly"]
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("name = ", "it is no TOML file: Invalid value (at end of document)"),
        ("\udcff", "it is no TOML file: 'utf-8' codec can't decode byte 0xff"),
        ("name = " + 5000 * "[", "it is no TOML file: maximum recursion depth exceeded"),
        ('name = "calm"', "it has name; give face_classes, name, voice_styles"),
        ("name = 1\nface_classes = []\nvoice_styles = []", "name is a text, the others lists of texts: "),
    ],
)
async def test_a_file_that_is_no_bank_is_named(
    run: Run, door: FakeDoor, tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "calm.toml").write_text(content, "utf-8", errors="surrogateescape")
    status, _, complaint = await run("emotion", "bank", tmp_path / "calm.toml")
    assert status == 1
    assert complaint.startswith(f"e3rg: {tmp_path / 'calm.toml'}: {problem}")
    assert not door.banks


async def test_examples_are_added_listed_found_and_removed(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    (tmp_path / "examples.toml").write_text(EXAMPLES)
    status, printed, _ = await run("exemplar", "add", "--identity", "anna", tmp_path / "examples.toml")
    ids = [exemplar.id for exemplar in door.exemplars["default", "anna"]]
    assert (status, printed.splitlines()) == (
        0,
        ["kept 3 exemplars", f"{ids[0]}  I lost my job.", f"{ids[1]}  We won!", f"{ids[2]}  I am alone."],
    )
    lines = (await run("exemplar", "list", "--identity", "anna"))[1].splitlines()
    assert [line.split()[0] for line in lines] == ids
    assert lines[0] == f"{ids[0]}  sad          'I lost my job.' - 'That must be hard.'"
    words = ["exemplar", "search", "--identity", "anna", "--emotion", "sad", "my work"]
    assert (await run(*words))[1].splitlines()[0] == f" 0.50  {lines[0]}"
    assert door.requests[-1] == exemplars.SearchExemplarsRequest(
        tenant="default", identity="anna", text="my work", similarity_min=-1, user_emotions=["sad"]
    )
    assert (await run("exemplar", "remove", "--identity", "anna", ids[0], "none"))[1] == "removed 1 of 2 exemplars\n"
    assert len(door.exemplars["default", "anna"]) == 2


async def test_examples_of_the_tenant_are_nobodys_own(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    (tmp_path / "examples.toml").write_text(EXAMPLES)
    assert (await run("exemplar", "add", "--tenant-wide", tmp_path / "examples.toml"))[0] == 0
    assert list(door.exemplars) == [("default", "")]
    assert len((await run("exemplar", "list", "--tenant-wide"))[1].splitlines()) == 3


async def test_more_examples_than_fit_into_a_request_are_sent_in_several(
    run: Run, door: FakeDoor, tmp_path: Path
) -> None:
    one = '[[exemplar]]\nuser_text = "I said {}."\nuser_emotion = "sad"\nreply_text = "Yes."\n'
    (tmp_path / "many.toml").write_text("".join(one.format(number) for number in range(401)))
    assert (await run("exemplar", "add", "--tenant-wide", tmp_path / "many.toml"))[0] == 0
    assert [len(request.exemplars) for request in door.requests] == [200, 200, 1]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "give one or more [[exemplar]], and nothing beside them"),
        ('[[example]]\nuser_text = "Hi."', "give one or more [[exemplar]], and nothing beside them"),
        ('[[exemplar]]\nuser_text = "Hi."', "exemplar 1: give user_text, user_emotion, reply_text as texts"),
        ("exemplar = [1]", "exemplar 1: give user_text, user_emotion, reply_text as texts"),
    ],
)
async def test_a_file_of_examples_that_is_none_is_named(
    run: Run, door: FakeDoor, tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "examples.toml").write_text(content)
    status, _, complaint = await run("exemplar", "add", "--tenant-wide", tmp_path / "examples.toml")
    assert status == 1
    assert complaint.startswith(f"e3rg: {tmp_path / 'examples.toml'}: {problem}")
    assert door.requests == []


def test_whose_examples_they_are_has_to_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["exemplar", "list"])
    assert end.value.code == 2
    assert "one of the arguments --identity --tenant-wide is required" in capsys.readouterr().err
