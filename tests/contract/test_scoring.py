"""The job that scores kept turns, over a real memory and readers that are told what they read."""

import io
import wave
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.expressiveness import voices
from benchmarks.scoring import __main__ as program
from benchmarks.scoring.job import Job, Outcome
from benchmarks.scoring.readers import ModelReaders, Unreadable, Voice
from benchmarks.scoring.report import lines
from benchmarks.scoring.store import Store
from e3rg.memory.v1 import erasure_pb2, memory_pb2, turns_pb2
from perception.face import FaceReader
from services.common.errors import ServiceError
from services.memory.settings import MemorySettings
from tests.ports import HeldPort
from tests.serving import plain_channel
from tests.support.memory import MP4, PORTRAIT, TENANT, WAV, Stubs, header, parts, serving

SPEECH, VIDEO = memory_pb2.CLIP_KIND_SPEECH, memory_pb2.CLIP_KIND_VIDEO
ALL = turns_pb2.TurnFilter()
MODELS = Path(__file__).parents[2] / ".models"
AT_REST = np.array([0.0, 5.0, -20.0, -12.0, 1.5])


class FakeReaders:
    """Readers who are told; a clip's last byte says what is heard in it.

    Attributes:
        carried: Class that words carry, by the text.
        shown: Class that every face shows; empty for no face.
        read: What was read.
    """

    def __init__(self) -> None:
        self.carried: dict[str, str] = {}
        self.shown = "sad"
        self.read: list[str] = []

    def words(self, text: str) -> str:
        self.read.append(f"words {text}")
        return self.carried.get(text, "sad")

    def voice(self, wav: bytes) -> Voice:
        self.read.append("voice")
        moves = {b"s": -2.0, b"h": 2.0}
        move = moves.get(wav[-1:], 0.0) * np.array(voices.RULES["sad"]) * -voices.STEP
        return Voice(AT_REST + move, 0.7)

    def face(self, film: bytes, portrait: bytes) -> str:
        assert portrait == PORTRAIT
        self.read.append("face")
        if not self.shown:
            raise Unreadable("video: no face is found")
        return self.shown


@pytest.fixture
async def stubs(tmp_path: Path) -> AsyncIterator[Stubs]:
    async with serving(MemorySettings(folder=tmp_path / "memory")) as stubs:
        await stubs.add(parts(header()))
        yield stubs


async def say(
    stubs: Stubs,
    number: int,
    style: str = "sad",
    face: str = "",
    clip: bytes = b"",
    user_emotion: str = "sad",
    reply_emotion: str = "sad",
    **fields: object,
) -> None:
    """Keep a turn, with a clip of its speech that ends with these bytes, and a film where a face is asked for."""
    turn = memory_pb2.Turn(
        id=f"turn-{number}",
        user_text="Hello.",
        user_emotion=user_emotion,
        reply_text=f"Reply {number}.",
        reply_emotion=reply_emotion,
        delivery=memory_pb2.TurnDelivery(voice_style=style, face_class=face),
        models={"tts": "hibari 0123"},
        variants={"tts": "b" if number % 2 else "default"},
    )
    turn.MergeFrom(memory_pb2.Turn(**fields))  # type: ignore[arg-type]
    await stubs.memory.Remember(
        memory_pb2.RememberRequest(tenant=TENANT, identity="ada", conversation="talk", person="bob", turn=turn)
    )
    if clip:
        await stubs.put_clip(SPEECH, WAV + clip, turn.id, person="bob")
    if face:
        await stubs.put_clip(VIDEO, MP4, turn.id, person="bob")


async def scored(stubs: Stubs) -> dict[str, dict[str, float]]:
    request = turns_pb2.QueryTurnsRequest(tenant=TENANT)
    return {each.turn.id: dict(each.scores) for each in (await stubs.turns.QueryTurns(request)).turns}


async def run(
    stubs: Stubs, readers: FakeReaders, labels: Mapping[str, str] | None = None, is_dry: bool = False, **wanted: str
) -> Outcome:
    return await Job(Store(stubs.channel, TENANT), readers, labels or {}, is_dry).run(ALL, **wanted)


async def test_words_and_face_are_scored_by_whether_they_show_what_was_asked_for(stubs: Stubs) -> None:
    readers = FakeReaders()
    readers.carried = {"Reply 2.": "happy"}
    # The words are asked for by a label, of which the reader tells the class.
    await say(stubs, 1, face="sad", reply_emotion="lonely")
    await say(stubs, 2, face="happy")
    await say(stubs, 3, face="neutral")
    outcome = await run(stubs, readers)
    assert await scored(stubs) == {
        "turn-1": {"agrees-text": 1, "agrees-face": 1},
        "turn-2": {"agrees-text": 0, "agrees-face": 0},
        "turn-3": {"agrees-text": 1},
    }
    assert outcome.kept == {"agrees-text": 3, "agrees-face": 2}


async def test_a_voice_is_compared_with_the_plain_speech_of_the_same_voice(stubs: Stubs) -> None:
    for number in range(1, 4):
        await say(stubs, number, "default", clip=b".")
    await say(stubs, 4, "sad", clip=b"s")
    await say(stubs, 5, "sad", clip=b"h")
    await say(stubs, 6, "sad", clip=b"s", models={"tts": "kokoro 4567"})
    outcome = await run(stubs, FakeReaders())
    found = {turn: scores.get("agrees-voice") for turn, scores in (await scored(stubs)).items()}
    plain = dict.fromkeys(("turn-1", "turn-2", "turn-3"))
    assert found == plain | {"turn-4": 1, "turn-5": 0, "turn-6": None}
    assert outcome.skipped == {"speech: fewer than 3 plain clips of the same voice": 1}


async def test_a_hit_is_scored_where_the_label_is_known(stubs: Stubs) -> None:
    for number, emotion in enumerate(("sad", "lonely", "sad"), 1):
        await say(stubs, number, user_emotion=emotion)
    await run(stubs, FakeReaders(), {"turn-1": "sad", "turn-2": "sad", "turn-9": "sad"})
    assert {turn: scores.get("hit") for turn, scores in (await scored(stubs)).items()} == {
        "turn-1": 1,
        "turn-2": 0,
        "turn-3": None,
    }


async def test_a_second_run_reads_only_what_has_no_score(stubs: Stubs) -> None:
    await say(stubs, 1, face="sad")
    await run(stubs, FakeReaders())
    await say(stubs, 2)
    again = FakeReaders()
    again.carried = {"Reply 1.": "happy"}
    outcome = await run(stubs, again)
    assert again.read == ["words Reply 2."]
    assert outcome.kept == {"agrees-text": 1}
    assert (await scored(stubs))["turn-1"] == {"agrees-text": 1, "agrees-face": 1}


async def test_a_dry_run_tells_what_it_would_keep_and_keeps_nothing(stubs: Stubs) -> None:
    await say(stubs, 1, face="sad")
    outcome = await run(stubs, FakeReaders(), is_dry=True)
    assert outcome.kept == {"agrees-text": 1, "agrees-face": 1}
    assert await scored(stubs) == {"turn-1": {}}


async def test_a_clip_that_cannot_be_read_is_told_and_the_rest_is_scored(stubs: Stubs) -> None:
    readers = FakeReaders()
    readers.shown = ""
    await say(stubs, 1, face="sad")
    outcome = await run(stubs, readers)
    assert outcome.skipped == {"video: no face is found": 1}
    assert await scored(stubs) == {"turn-1": {"agrees-text": 1}}


async def test_a_user_who_is_erased_meanwhile_is_left_out(stubs: Stubs) -> None:
    await say(stubs, 1)
    readers = FakeReaders()
    job = Job(_Erasing(stubs), readers, {})
    outcome = await job.run(ALL)
    assert (outcome.kept, outcome.skipped) == ({}, {"erased, damaged or not allowed any more": 1})


async def test_only_turns_of_an_experiment_are_scored_where_one_is_named(stubs: Stubs) -> None:
    await say(stubs, 1, experiment="voices", phase=1)
    await say(stubs, 2)
    assert (await run(stubs, FakeReaders(), experiment="voices")).kept == {"agrees-text": 1}
    assert (await scored(stubs))["turn-2"] == {}


async def test_the_table_has_the_diversity_of_each_variant_over_as_many_words(stubs: Stubs) -> None:
    for number, text in enumerate(("a b c d", "a a a a", "x y z q", "a a a a"), 1):
        await say(stubs, number, reply_text=text)
    await say(stubs, 5, reply_text="long long long long long long")
    printed = list(lines(await run(stubs, FakeReaders()), "tts"))
    assert printed[0] == "5 turns; scored: 5 agrees-text"
    assert "the first 8 words" in printed[1]
    # Eight words of b: "a b c d x y z q".
    assert [line.split()[:5] for line in printed[3:]] == [
        ["b", "3", "1.000", "0.750", "."],
        ["default", "2", "0.125", "0.125", "."],
    ]
    assert list(lines(Outcome(), "tts")) == ["0 turns; scored: nothing new", "no turn names a variant of tts"]


async def test_without_the_memory_the_job_ends_with_its_error() -> None:
    with HeldPort() as port:
        async with plain_channel(f"127.0.0.1:{port.number}") as channel:
            with pytest.raises(ServiceError, match="memory"):
                await Job(Store(channel, TENANT), FakeReaders(), {}).run(ALL)


class Judge:
    """A judge that never comes to see a face."""

    name = "blind"

    def classify(self, face: NDArray[np.uint8]) -> NDArray[np.float64]:
        raise AssertionError("there is no face to see")


def silence() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        writer.writeframes(bytes(32_000))
    return file.getvalue()


def test_words_are_read_as_they_are_meant_and_what_cannot_be_read_is_said() -> None:
    readers = ModelReaders(FaceReader(MODELS), Judge())
    assert readers.words("That is the best news, I am so happy for both of you!") == "happy"
    assert readers.words("I am so sorry. I miss him badly too, and so does my mother.") == "sad"
    for clip in (WAV, b"", silence()):
        with pytest.raises(Unreadable, match="speech: "):
            readers.voice(clip)
    for film in (MP4, b""):
        with pytest.raises(Unreadable, match="video: "):
            readers.face(film, PORTRAIT)


@pytest.mark.parametrize("content", ["turn,label\n1,blissful-ish\n", "id,emotion\n1,sad\n", "turn,label\n,sad\n"])
def test_labels_that_cannot_be_used_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match="give the columns turn and label"):
        program.read_labels(path)
    path.write_text("turn,label\nturn-1,sad\n", "utf-8")
    assert program.read_labels(path) == {"turn-1": "sad"}


class _Erasing(Store):
    """A memory in which the user is erased before the scores come."""

    def __init__(self, stubs: Stubs) -> None:
        super().__init__(stubs.channel, TENANT)
        self._stubs = stubs

    async def put(self, record: turns_pb2.TurnRecord, scores: Mapping[str, float]) -> None:
        request = erasure_pb2.ErasePersonRequest(tenant=TENANT, person="bob", asked_by="bob")
        await self._stubs.erasure.ErasePerson(request)
        await super().put(record, scores)
