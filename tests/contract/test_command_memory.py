"""`e3rg memory`: what was said, for how long it is kept, what was erased."""

import asyncio
import time
from pathlib import Path

import pytest

from client import Client, command
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2 as erasure
from e3rg.memory.v1 import memory_pb2 as pb
from e3rg.memory.v1 import turns_pb2
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as understanding
from tests.fake_door import FakeDoor, Run

VOTES = understanding.UnderstandResponse(
    text="I lost my job.",
    emotion=common.Emotion(label="sad"),
    record=understanding.VoteRecord(
        label="sad",
        rule="majority",
        margin=2,
        votes=[
            understanding.Vote(
                voter="text",
                status=understanding.VOTE_STATUS_VOTED,
                prediction=mllm.PredictEmotionResponse(label="sad", face_class="sad"),
            ),
            understanding.Vote(voter="face", status=understanding.VOTE_STATUS_LATE, reason="4 s"),
        ],
    ),
)


def turn(number: int, **fields: object) -> pb.Turn:
    return pb.Turn(
        id=f"t{number}",
        user_text=f"I said {number}.",
        user_emotion="sad",
        user_intensity=0.6,
        reply_text="I hear you.",
        reply_emotion="caring",
        said_at_s=1_795_000_000 + number,
        conversation="monday",
        **fields,  # type: ignore[arg-type]
    )


async def test_the_turns_of_a_conversation_are_shown_with_feelings_votes_and_clips(run: Run, door: FakeDoor) -> None:
    clips = [
        pb.Clip(kind=pb.CLIP_KIND_SPEECH, size_bytes=32_000),
        pb.Clip(kind=pb.CLIP_KIND_VIDEO, size_bytes=99_000),
    ]
    took = {"vote": 0.25, "speech": 1.5, "turn": 2.25, "recall": 0.001}
    door.turns = [
        turn(3, vote_record=VOTES.SerializeToString(), clips=clips, timings_s=took),
        turn(2, vote_record=b"\xff"),
        turn(1, degraded=["video: no replica answers"]),
    ]
    status, printed, _ = await run("memory", "turns", "anna", "--conversation", "monday", "--person", "bob")
    assert status == 0
    assert printed.splitlines() == [
        "2026-11-18 11:06:43 UTC  turn t3",
        "  sad 0.60             'I said 3.'",
        "  -> caring            'I hear you.'",
        "  vote   sad by majority, margin 2: text sad, face was late",
        "  took   turn 2.25 s, speech 1.50 s, vote 0.25 s, recall 0.00 s",
        "  speech 32000 bytes",
        "  video  99000 bytes",
        "2026-11-18 11:06:42 UTC  turn t2",
        "  sad 0.60             'I said 2.'",
        "  -> caring            'I hear you.'",
        "  vote   1 bytes that are no vote record",
        "2026-11-18 11:06:41 UTC  turn t1",
        "  sad 0.60             'I said 1.'",
        "  -> caring            'I hear you.'",
        "  lost   video: no replica answers",
    ]
    first = door.requests[0]
    assert (first.tenant, first.identity, first.conversation, first.person) == ("default", "anna", "monday", "bob")


async def test_turns_are_found_by_a_text(run: Run, door: FakeDoor) -> None:
    here, elsewhere = turn(1), turn(2)
    elsewhere.said_at_s = time.time() - 3 * 86_400 - 60
    door.hits = [
        pb.Hit(turn=here, similarity=0.75, turns_ago=2),
        pb.Hit(turn=elsewhere, similarity=0.5),
        pb.Hit(turn=here, similarity=0.25, turns_ago=1),
    ]
    words = ["--person", "bob", "--conversation", "monday", "--emotion", "sad", "--emotion", "lonely"]
    status, printed, _ = await run("memory", "search", "anna", "my job", *words, "--max-age-days", "0.5")
    assert status == 0
    assert printed.splitlines() == [
        "2 turns ago, similarity 0.75: 'I said 1.' (sad)",
        "3 days ago in conversation monday, similarity 0.50: 'I said 2.' (sad)",
        "1 turn ago, similarity 0.25: 'I said 1.' (sad)",
    ]
    assert door.requests == [
        pb.SearchRequest(
            tenant="default",
            identity="anna",
            person="bob",
            conversation="monday",
            text="my job",
            similarity_min=-1,
            age_max_s=43_200,
            user_emotions=["sad", "lonely"],
        )
    ]


async def test_a_search_for_nobody_is_refused_in_the_memorys_words(run: Run) -> None:
    assert await run("memory", "search", "anna", "my job") == (
        1,
        "",
        "e3rg: INVALID_ARGUMENT: conversation: empty, and there is no person; name one of them\n",
    )


async def test_a_clip_becomes_a_file_and_one_that_is_not_there_does_not(
    run: Run, door: FakeDoor, tmp_path: Path
) -> None:
    words = ["memory", "clip", "anna", "--conversation", "monday", "--turn", "t1", "--kind", "video"]
    file = tmp_path / "t1.mp4"
    assert await run(*words, file) == (1, "", "e3rg: NOT_FOUND: turn 't1' has no such clip\n")
    assert list(tmp_path.iterdir()) == []
    door.clip = b"moving"
    assert await run(*words, file) == (0, f"written {file} (6 bytes)\n", "")
    assert file.read_bytes() == b"moving"
    assert door.requests[-1].kind == pb.CLIP_KIND_VIDEO


async def test_a_person_or_a_conversation_is_erased(run: Run, door: FakeDoor) -> None:
    erase = ["memory", "erase-person", "--asked-by", "Ada", "--yes"]
    status, printed, _ = await run(*erase, "--person", "bob")
    assert (status, printed.splitlines()[0]) == (0, "erased     person bob, asked for by Ada")
    status, printed, _ = await run(*erase, "--conversation", "monday")
    assert (status, printed.splitlines()[0]) == (0, "erased     conversation monday, asked for by Ada")
    assert door.requests == [
        erasure.ErasePersonRequest(tenant="default", person="bob", asked_by="Ada"),
        erasure.ErasePersonRequest(tenant="default", conversation="monday", asked_by="Ada"),
    ]
    assert (await run("memory", "erase-person", "--asked-by", "Ada", "--person", "bob"))[::2] == (
        1,
        "e3rg: nothing was erased: erasing person bob of tenant default cannot be undone; say --yes when you mean it\n",
    )


async def test_what_was_erased_is_listed_the_newest_first_on_all_pages(run: Run, door: FakeDoor) -> None:
    for number in range(3):
        await run("memory", "erase-person", "--asked-by", "Ada", "--yes", "--person", f"bob{number}")
    door.audits[0].done_at_s = 0
    status, printed, _ = await run("memory", "audits")
    assert status == 0
    assert printed.splitlines() == [
        "2026-11-18 11:06:40 UTC  person bob2, asked for by Ada: 3 rows, 40000 bytes, under way  a3",
        "2026-11-18 11:06:40 UTC  person bob1, asked for by Ada: 3 rows, 40000 bytes  a2",
        "2026-11-18 11:06:40 UTC  person bob0, asked for by Ada: 3 rows, 40000 bytes  a1",
    ]


async def test_an_erasure_under_way_is_not_said_to_be_done(run: Run, door: FakeDoor) -> None:
    door.done_after_s = None
    printed = (await run("memory", "erase-person", "--asked-by", "Ada", "--yes", "--person", "bob"))[1]
    assert "done       not yet: the memory ends it by itself; `e3rg memory audits` tells when\n" in printed


async def test_retention_is_shown_and_what_is_named_of_it_is_set(run: Run, door: FakeDoor) -> None:
    assert (await run("memory", "retention"))[1].splitlines() == [
        "turns      for ever",
        "clips      as long as their turns",
        "derived    as long as what they were derived from",
        "audits     for ever",
    ]
    assert door.requests == []
    assert (await run("memory", "retention", "--turns-days", "90", "--clips-days", "1"))[0] == 0
    status, printed, _ = await run("memory", "retention", "--clips-days", "0", "--audits-days", "365")
    assert (status, printed.splitlines()) == (
        0,
        [
            "turns      90 days",
            "clips      as long as their turns",
            "derived    as long as what they were derived from",
            "audits     365 days",
        ],
    )
    assert door.retention == erasure.Retention(turns_days=90, audits_days=365)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["retention", "--turns-days", "-1"], "argument --turns-days: '-1' is no number; give 0 to 4294967295"),
        (["turns", "anna"], "the following arguments are required: --conversation"),
        (["erase-person", "--asked-by", "Ada"], "one of the arguments --person --conversation is required"),
        (["erase-person", "--person", "bob"], "the following arguments are required: --asked-by"),
    ],
)
def test_words_that_make_no_request_are_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["memory", *words])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


def damage(door: FakeDoor, *numbers: int) -> list[str]:
    """Damages turns, of which each page has two; returns what is told of each."""
    door.turns = [turn(number) for number in (4, 3, 2, 1)]
    door.damaged_turns = {f"t{number}": f"stored object 't{number}' is damaged: \x1b[2J" for number in numbers}
    return [f"stored object 't{number}' is damaged: \\x1b[2J" for number in numbers]


async def test_turns_are_shown_but_damaged_ones_and_the_end_says_what_is_wrong(run: Run, door: FakeDoor) -> None:
    told = damage(door, 4, 3, 1)
    status, printed, complaint = await run("memory", "turns", "anna", "--conversation", "monday")
    assert [line.split()[-1] for line in printed.splitlines() if "turn" in line] == ["t2"]
    assert (status, complaint.splitlines()) == (1, [f"e3rg: {line}" for line in told])


async def test_a_program_gets_all_other_turns_and_is_warned_of_the_damaged(
    door: FakeDoor, caplog: pytest.LogCaptureFixture
) -> None:
    (told,) = damage(door, 3)
    with Client(door.address) as client:
        names = await asyncio.to_thread(lambda: [each.id for each in client.turns.all("anna", "monday")])
    assert names == ["t4", "t2", "t1"]
    assert [said.getMessage() for said in caplog.records] == [f"left out of a conversation: {told}"]


async def test_a_turn_is_rated_once_per_rater(run: Run, door: FakeDoor, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["memory", "rate", "anna", "--person", "bob", "--conversation", "monday", "--turn", "t1", "--rater", "r1"]
    words += ["--consistency", "4", "--naturalness", "3", "--expressiveness"]
    told = "rated      turn t1, by r1: expressiveness 5, consistency 4, naturalness 3\n"
    assert await run(*words, "5") == (0, told, "")
    where = {"tenant": "default", "identity": "anna", "user": "bob", "conversation": "monday", "turn": "t1"}
    rating = turns_pb2.Rating(rater="r1", expressiveness=5, consistency=4, naturalness=3)
    assert door.requests == [turns_pb2.RateTurnRequest(**where, rating=rating)]
    assert await run(*words, "1") == (1, "", "e3rg: ALREADY_EXISTS: rater 'r1' has rated turn 't1' already\n")
    with pytest.raises(SystemExit):
        command.main([*words, "6"])
    assert "argument --expressiveness: invalid choice: 6" in capsys.readouterr().err
