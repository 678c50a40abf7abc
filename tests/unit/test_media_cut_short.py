"""A file that holds less than it promises is understood as far as it goes, and a note says how far; no whole one is."""

import random
import re
from pathlib import Path

import av
import pytest

from services.common.containers import kind_of
from services.common.endings import PIECES_MAX, missing_bytes, tells_duration
from services.common.errors import InvalidRequest
from services.understanding import media
from tests.media_files import PROMISING, RECORDED, WHOLE, made, places_of


def cut(name: str) -> bytes:
    """Three fifths of a file, and not to the end of some piece of it."""
    return made(name)[: len(made(name)) * 3 // 5 + 7]


def read(content: bytes) -> media.Media:
    return media.read_video(content, media.Limits(frames_max=4))


@pytest.mark.parametrize("name", PROMISING | RECORDED | WHOLE)
def test_no_whole_file_is_said_to_be_cut(name: str) -> None:
    for found in (read(made(name)), media.read_audio(made(name)) if "of pictures" not in name else None):
        if found is not None:
            assert found.cut == ""
            assert not any("cut off" in note or "damage" in note for note in found.notes)


@pytest.mark.parametrize("name", PROMISING)
def test_what_came_of_a_promised_length_is_told(name: str) -> None:
    found = media.read_video(cut(name), media.Limits(frames_max=100))
    assert f"video: {found.cut}; what is there was used" in found.notes
    told = re.findall(r"(pictures end|sound ends) after (\d\.\d\d) s of the promised (\d\.\d\d) s", found.cut)
    assert [kind for kind, _, _ in told] == ["pictures end"] * bool(found.frames) + ["sound ends"] * bool(found.audio)
    for kind, came_s, promised_s in told:
        assert float(promised_s) == pytest.approx(2, abs=0.3 if "uneven" in name and kind == "pictures end" else 0.05)
        assert 0.2 < float(came_s) < 1.8
        if kind == "sound ends" and found.audio:
            assert float(came_s) == pytest.approx(found.audio.duration_s, abs=0.06)
        elif "uneven" not in name:
            assert float(came_s) == pytest.approx(found.frames[-1].time_s + 0.05, abs=0.01)


@pytest.mark.parametrize("name", RECORDED)
def test_where_a_recording_of_no_promised_length_breaks_off_is_told(name: str) -> None:
    found = read(cut(name))
    assert f"video: {found.cut}; what is there was used" in found.notes
    assert all(0.2 < float(came_s) < 1.8 for came_s in re.findall(r"after (\d\.\d\d) s", found.cut))
    # Of fragments, the one that is cut promises how long it lasts.
    missing = missing_bytes(cut(name), kind_of(cut(name), "video"))
    assert "of the promised 1." in found.cut or found.cut.endswith(f" s, {missing} bytes or more are missing")


@pytest.mark.parametrize("name", PROMISING)
def test_wherever_a_file_is_cut_it_is_told_or_refused(name: str) -> None:
    dice = random.Random(name)
    for _ in range(12):
        content = made(name)[: dice.randrange(1, len(made(name)))]
        try:
            assert read(content).cut
        except InvalidRequest as error:
            assert error.field == "video"


def test_a_file_that_lacks_its_last_byte_only_is_told() -> None:
    for name in ("mp4", "webm", "wav", "ogg", "aac", "mp3 of a stream"):
        assert read(made(name)[:-1]).cut


def test_an_mp4_that_lacks_whole_fragments_of_those_it_announces_is_told(tmp_path: Path) -> None:
    path = tmp_path / "announced.mp4"
    path.write_bytes(made("mp4 in fragments"))
    with (
        av.open(path, "r") as source,
        av.open(tmp_path / "clip.mp4", "w", options={"movflags": "dash+frag_keyframe+global_sidx"}) as output,
    ):
        streams = [output.add_stream_from_template(stream) for stream in source.streams]
        for packet in source.demux():
            if packet.size:
                packet.stream = streams[packet.stream_index]
                output.mux(packet)
    content = (tmp_path / "clip.mp4").read_bytes()
    assert read(content).cut == ""
    begun = content[: content.rindex(b"moof", 0, content.rindex(b"moof")) - 4]
    assert missing_bytes(begun, "mp4") == 0
    assert re.match(r"the file is cut off: its pictures end after 1.0\d s of the promised 2.0\d s", read(begun).cut)


@pytest.mark.parametrize(("name", "came_s"), [("flac", "1.06"), ("mp3", "0.26")])
def test_what_tells_its_length_is_told_of_when_it_is_cut_between_two_pieces(name: str, came_s: str) -> None:
    begun = made(name)[: places_of(made(name), "audio")[11].start]
    assert f"after {came_s} s of the promised 2.00 s" in read(begun).cut


@pytest.mark.parametrize("name", ["webm", "webm of sound", "matroska", "webm from a browser", "webm, live"])
@pytest.mark.parametrize("tail", [b"TAG" + bytes(125), b"made by hand\n"])
def test_what_some_programs_append_is_no_piece_that_is_cut(name: str, tail: bytes) -> None:
    assert missing_bytes(made(name) + tail, "matroska") == 0


def test_only_an_mp3_that_says_its_length_is_held_to_it() -> None:
    # Of others the demuxer guesses it from bit rate and size.
    assert tells_duration(made("mp3"), "mp3")
    assert not tells_duration(made("mp3 of a stream"), "mp3")


def test_a_piece_of_sound_that_lacks_its_end_is_not_heard() -> None:
    found = media.read_audio(made("mp4 of opus")[:-10])
    assert found.cut == "the file is cut off: its sound ends after 1.99 s of the promised 2.00 s"
    assert "audio: damaged pieces of the sound that were left out: 1" in found.notes


def test_a_picture_that_lacks_its_end_is_not_shown() -> None:
    content = made("mp4 of pictures")
    found = read(content[: places_of(content, "video")[3].stop - 20])
    assert [frame.time_s for frame in found.frames] == pytest.approx([0, 0.05, 0.1])
    assert "video: damaged pictures that were left out: 1" in found.notes


def test_pictures_of_which_none_can_be_decoded_leave_the_sound() -> None:
    content = bytearray(made("mp4"))
    for place in places_of(bytes(content), "video"):
        content[place] = bytes(place.stop - place.start)
    found = read(bytes(content))
    assert found.audio is not None
    assert found.frames == ()
    assert "video: the pictures were not used: none of the 40 pictures could be decoded" in found.notes


def test_a_cut_file_of_which_nothing_can_be_used_is_refused_and_says_that_it_is_cut() -> None:
    front = made("mp4").index(b"mdat") + 4
    with pytest.raises(InvalidRequest, match=r"^video: none of the 0 pictures .* cut off: .*; send the whole file$"):
        media.read_video(made("mp4")[:front])
    with pytest.raises(InvalidRequest, match=r"^audio: no sound: .* 0.02 s .* promised 2.00 s; send the whole file$"):
        media.read_audio(made("wav")[: 44 + 2 * 320])
    with pytest.raises(InvalidRequest, match=r"^video: the file has no pictures, and .*; send the whole file$"):
        media.read_video(made("wav")[: 44 + 2 * 320])


def test_of_a_file_of_very_many_pieces_only_the_first_are_looked_at() -> None:
    head = b"\x1aE\xdf\xa3\x80" + b"\x18S\x80g\x01" + 7 * b"\xff"
    empty, cut = b"\xec\x80", b"\xec\x84"
    assert missing_bytes(head + 10 * empty + cut, "matroska") == 4
    assert missing_bytes(head + PIECES_MAX * empty + cut, "matroska") == 0
