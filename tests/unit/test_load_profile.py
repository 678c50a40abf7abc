"""Profiles of a load, and the arguments that make them."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.load import Profile, ProfileError, Stage
from benchmarks.load.arguments import parse
from benchmarks.load.messages import Message, Mix, parse_weights

ADDRESS = "127.0.0.1:50051"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"users": -1}, "users: -1; give 0 or more"),
        ({"users": 2, "rate": 1.0}, "rate: 1 beside 2 users; give one of them"),
        ({"rate": float("nan")}, "rate: nan; give 0 or more"),
        ({"users": 1, "stages": (Stage(60, 2.5),)}, "users: 2.5; give a whole number of users"),
        ({"rate": 1.0, "stages": (Stage(60, -2),)}, "stages: 60 s to -2; give 0 or more of both"),
        ({"duration_s": 0.0}, "duration_s: 0, and there are no stages; give more than 0"),
        ({"rate": 0.0}, "rate: 0 all the time; give more than 0, or stages"),
        ({"users": 0}, "users: 0 all the time; give more than 0, or stages"),
        ({"think_s": -1.0}, "think_s: -1; give 0 or more"),
        ({"think": "long"}, "think: 'long'; use one of: exponential, fixed"),
        ({"output": "film"}, "output: 'film'; use one of: text, audio, video"),
        ({"deadline_s": 0.0}, "deadline_s: 0; give more than 0"),
        ({"open_max": 0}, "open_max: 0; give 1 or more"),
        ({"connections": 0}, "connections: 0; give 1 or more"),
        ({"turns_max": -1}, "turns_max: -1; give 0 or more"),
        ({"conversation_turns": -1}, "conversation_turns: -1; give 0 or more"),
        ({"conversation_turns": 2}, "conversation_turns: 2, but nothing is kept; ask for conversations too"),
        ({"keep_clips": True}, "keep_clips: 1, but nothing is kept; ask for conversations too"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_what_would_be_right(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ProfileError) as failure:
        Profile(ADDRESS, **fields)
    assert str(failure.value) == told


def test_the_last_level_is_held_for_the_duration() -> None:
    ramp = Profile(ADDRESS, rate=0.0, stages=(Stage(60, 5),), duration_s=30).ramp
    assert (ramp.duration_s, ramp.level(30), ramp.level(89)) == (90, 2.5, 5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("text", "mix: 'text'; give KIND=WEIGHT, like text=8,audio=1,video=1"),
        ("text=much", "mix: 'text=much'; give KIND=WEIGHT, like text=8,audio=1,video=1"),
        ("smell=1", "mix: 'smell' is no kind of message; use text, audio, video"),
        ("text=-1", "mix: text=-1; give 0 or more"),
        ("text=1,video=2", "mix: video=2, but there is no such message; give one, or leave it out"),
        ("text=0", "mix: nothing is ever sent; give a weight above 0 to a kind that has messages"),
    ],
)
def test_a_wrong_mix_is_named_with_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(ProfileError) as failure:
        Mix(weights=parse_weights(text))
    assert str(failure.value) == told


def test_kinds_without_a_weight_are_not_sent_and_without_weights_all_are() -> None:
    messages = (Message("text", "Hello."), Message("audio", content=b"hello"))
    assert Mix(messages, {"audio": 1}).kinds == ["audio"]
    assert Mix(messages).kinds == ["text", "audio"]


def test_arguments_make_a_profile(tmp_path: Path) -> None:
    texts, sound = tmp_path / "texts", tmp_path / "a.wav"
    texts.write_text("First.\n\n Second. \n", "utf-8")
    sound.write_bytes(b"RIFF")
    words = (
        f"{ADDRESS} --rate 0 --stage 1m:2 --messages {texts} --audio {sound} {sound} --mix text=1,audio=3 --ca ca.crt"
    )
    options = parse("", [*words.split(), "--fail-if", "lost > 0"])
    profile = options.profile
    assert (profile.address, profile.ramp.highest, profile.ramp.duration_s, profile.ca_file) == (
        ADDRESS,
        2,
        60,
        "ca.crt",
    )
    assert [message.text for message in profile.mix.messages] == ["First.", "Second.", "", ""]
    assert [(message.kind, message.audio) for message in profile.mix.messages[2:]] == [("audio", b"RIFF")] * 2
    assert [str(bound) for bound in options.bounds] == ["lost>0"]
    assert profile.plain()["messages"][2] == {"kind": "audio", "text": "", "file": "a.wav", "size_bytes": 4}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--stage 60:2", "stage: '60:2'; give DURATION:LEVEL"),
        ("--fail-if lots>0", "fail-if: 'lots' is no figure; there are lost"),
        ("--fail-if lost", "fail-if: 'lost'; give NAME>NUMBER, like lost>0 or first_video_p95_s>3"),
        ("--messages {empty}", "is empty; give a text file with a message a line"),
        ("--audio {empty}", "has 0 bytes; give 1 to 33554432"),
        ("--video {empty}.mp4", "No such file or directory"),
    ],
)
def test_wrong_arguments_end_the_program_with_what_would_be_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(SystemExit) as ended:
        parse("", words.format(empty=empty).split())
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
