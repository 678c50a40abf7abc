"""What `understanding.proto` promises of a file that ends before it says, over a real channel."""

from typing import TYPE_CHECKING

from services.mllm.domain import Transcript
from tests.deployment import Cast
from tests.samples import film, wav
from tests.serving import refused
from tests.understanding_service import INVALID, audio, context, header, understand, video

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

FILM, SOUND = film(4.0, parts={"moov_size": "10000"}), wav(4.0)
USED = "; what is there was used"


async def test_a_film_that_is_cut_is_answered_with_a_note_of_how_much_came(stub: "Stub", cast: Cast) -> None:
    cut = FILM[: len(FILM) - len(FILM) // 4]
    answer = await understand(stub, header(video=len(cut)), video(cut), context())
    assert (answer.transcribed, answer.text) == (True, cast.lead.transcript.text)
    (note,) = [note for note in answer.notes if "cut off" in note]
    assert note.startswith("video: the file is cut off: its pictures end after ")
    assert note.count(" s of the promised 4.0") == 2
    assert note.endswith(USED)


async def test_a_recording_that_is_cut_is_answered_with_a_note_of_how_much_came(stub: "Stub") -> None:
    cut = SOUND[: 44 + 2 * 16_000 * 21 // 10]
    answer = await understand(stub, header(audio=len(cut)), audio(cut), context())
    told = "audio: the file is cut off: its sound ends after 2.10 s of the promised 4.00 s"
    assert list(answer.notes) == [told + USED]


async def test_whole_files_are_answered_without_a_note(stub: "Stub") -> None:
    answer = await understand(stub, header(video=len(FILM), audio=len(SOUND)), video(FILM), audio(SOUND), context())
    assert list(answer.notes) == []


async def test_a_cut_file_in_which_no_words_are_found_is_refused_as_cut(stub: "Stub", cast: Cast) -> None:
    cast.lead.transcript = Transcript("", "en", 0.9)
    cut = SOUND[: 44 + 2 * 16_000]
    with refused(
        INVALID, "audio: no speech was recognised in it; the file is cut off: its sound ends after 1.00 s of "
    ):
        await understand(stub, header(audio=len(cut)), audio(cut), context())


async def test_a_cut_file_of_which_nothing_can_be_decoded_is_refused(stub: "Stub") -> None:
    for cut in (FILM[: FILM.index(b"mdat") + 4], film(4.0)[:2_000]):
        with refused(INVALID, "video: "):
            await understand(stub, header("Hello!", video=len(cut)), video(cut), context())
