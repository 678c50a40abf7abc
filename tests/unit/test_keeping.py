"""What a turn hands to the memory: the record of the vote within its size, recordings within theirs."""

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from orchestrator.keeping import CLIP_BYTES_MAX, VOTE_RECORD_BYTES_MAX, Clip, Keeper, vote_record
from orchestrator.memory import Memory
from orchestrator.messages import portrait_of, voices_of
from orchestrator.report import Report

MIB = 1 << 20


def understood(evidence: int = 0, labels: int = 0, notes: int = 0, text: int = 0) -> understanding.UnderstandResponse:
    """A decision with so many bytes of evidence, labels, bytes of notes, and characters of text."""
    prediction = mllm.PredictEmotionResponse(
        label="sad", evidence={"heard": "x" * evidence}, distribution={f"label {n}": 0.5 for n in range(labels)}
    )
    vote = understanding.Vote(voter="text", prediction=prediction)
    record = understanding.VoteRecord(label="sad", votes=[vote])
    return understanding.UnderstandResponse(text="w" * text, record=record, notes=["n" * notes] if notes else [])


def test_a_record_that_fits_is_kept_as_it_is() -> None:
    whole = understood(evidence=1000, labels=30, notes=100, text=4000)
    assert understanding.UnderstandResponse.FromString(vote_record(whole)) == whole


@pytest.mark.parametrize(
    ("large", "left_out"),
    [
        (understood(evidence=70_000), "evidence"),
        (understood(labels=5_000), "evidence, distributions"),
        (understood(notes=70_000), "evidence, distributions, notes"),
        (understood(text=70_000), "evidence, distributions, notes, text"),
    ],
)
def test_of_a_large_record_the_largest_parts_are_left_out_and_named(
    large: understanding.UnderstandResponse, left_out: str
) -> None:
    before = large.SerializeToString(deterministic=True)
    content = vote_record(large)
    assert len(content) <= VOTE_RECORD_BYTES_MAX < len(before)
    kept = understanding.UnderstandResponse.FromString(content)
    assert kept.notes[-1] == f"vote record: left out {left_out}"
    assert (kept.record.label, kept.record.votes[0].prediction.label) == ("sad", "sad")
    assert large.SerializeToString(deterministic=True) == before


def test_a_record_of_votes_without_end_is_that_of_the_decision() -> None:
    many = understood()
    many.record.votes.extend([many.record.votes[0]] * 10_000)
    kept = understanding.UnderstandResponse.FromString(vote_record(many))
    assert (kept.record.label, len(kept.record.votes)) == ("sad", 0)
    assert kept.notes[-1].endswith(", votes")


def test_large_votes_of_shadows_are_left_out_too() -> None:
    large, many = understood(), understood()
    large.record.shadow_votes.extend(understood(evidence=70_000).record.votes)
    kept = understanding.UnderstandResponse.FromString(vote_record(large))
    assert (kept.record.shadow_votes[0].prediction.label, kept.notes[-1]) == ("sad", "vote record: left out evidence")
    many.record.shadow_votes.extend([many.record.votes[0]] * 10_000)
    kept = understanding.UnderstandResponse.FromString(vote_record(many))
    assert (kept.record.label, len(kept.record.shadow_votes)) == ("sad", 0)


def test_a_recording_is_held_up_to_its_limit() -> None:
    clip = Clip(memory.CLIP_KIND_VIDEO, bytes_max=10)
    clip.add(bytes(10))
    assert (clip.is_too_large, clip.content) == (False, bytes(10))
    clip.add(b"x")
    clip.add(b"y")
    assert (clip.is_too_large, clip.content) == (True, b"")


async def filmed(keep_clips: bool) -> list[pb.RespondResponse]:
    """What is told of a film that is 1 MiB larger than the memory keeps."""
    report = Report()
    async with grpc.aio.insecure_channel("127.0.0.1:1") as nobody:
        keeper = Keeper(Memory(nobody), pb.RespondHeader(keep_clips=keep_clips), report, lambda: 20.0)
        for _ in range(CLIP_BYTES_MAX // MIB + 1):
            keeper.see(bytes(MIB))
        await keeper.keep_clips("turn")
    report.events.end()
    return [event async for event in report.events]


async def test_a_film_that_nobody_wants_kept_is_not_held() -> None:
    assert await filmed(keep_clips=False) == []


async def test_a_film_that_is_too_large_is_not_kept_and_the_reply_says_so() -> None:
    (event,) = await filmed(keep_clips=True)
    assert (event.degraded.stage, event.degraded.dropped) == ("keep_clips", "the recording of the film")
    assert event.degraded.reason == "it has more than 67108864 bytes; it is not kept"


async def test_without_time_left_a_film_is_not_kept_and_the_reply_says_so() -> None:
    report = Report()
    async with grpc.aio.insecure_channel("127.0.0.1:1") as nobody:
        keeper = Keeper(Memory(nobody), pb.RespondHeader(keep_clips=True), report, lambda: 0.0)
        keeper.see(b"a film")
        await keeper.keep_clips("turn")
    report.events.end()
    (event,) = [event async for event in report.events]
    assert (event.degraded.stage, event.degraded.dropped) == ("keep_clips", "the recording of the film")


def identity(*files: tuple[identities.ReferenceKind, int]) -> identities.Identity:
    """An identity with files of these kinds and sizes; a file's digest is its place."""
    return identities.Identity(
        profile=common.Profile(name="Ada"),
        references=[
            identities.Reference(digest=str(place), size_bytes=size, kind=kind)
            for place, (kind, size) in enumerate(files)
        ],
    )


PORTRAIT, VOICE, FILM = (
    identities.REFERENCE_KIND_PORTRAIT,
    identities.REFERENCE_KIND_VOICE,
    identities.REFERENCE_KIND_FILM,
)


def test_the_first_portrait_is_the_face_and_all_recordings_are_the_voice() -> None:
    ada = identity((VOICE, 5), (FILM, 9), (PORTRAIT, 7), (PORTRAIT, 8), (VOICE, 6))
    assert (portrait_of(ada), voices_of(ada)) == ("2", ["0", "4"])


def test_of_many_recordings_as_many_are_lent_as_a_voice_service_takes() -> None:
    assert voices_of(identity(*[(VOICE, 5)] * 10)) == [str(place) for place in range(8)]
    large = identity((VOICE, 10 * MIB), (VOICE, 7 * MIB), (VOICE, 6 * MIB))
    assert voices_of(large) == ["0", "2"]
