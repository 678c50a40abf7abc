import base64
import io
import re
import sys

import pytest
from PIL import Image

from client.picture import ROWS, Way, drawn, show, way
from client.terminal import age, complain, count, moment, printable, say
from tests.samples import jpeg, png


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("one\r\ntwo\tthree", r"one\r\ntwo\tthree"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("\u202etxt.exe\u2066 \u2028", r"\u202etxt.exe\u2066 \u2028"),
        ("\ud800", r"\ud800"),
        ("Ñandú, 你好, नमस्ते, 👩\u200d🚒, \u200c", "Ñandú, 你好, नमस्ते, 👩\u200d🚒, \u200c"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(capsys: pytest.CaptureFixture[str], text: str, seen: str) -> None:
    assert printable(text) == seen
    say(text)
    complain(text)
    assert tuple(capsys.readouterr()) == (f"{seen}\n", f"e3rg: {seen}\n")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-5.0, "a moment ago"),
        (59.0, "a moment ago"),
        (60.0, "1 minute ago"),
        (7199.0, "1 hour ago"),
        (172_800.0, "2 days ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, told: str) -> None:
    assert age(seconds) == told


def test_a_time_is_told_in_utc_and_one_that_is_none_as_it_is() -> None:
    assert moment(0) == "1970-01-01 00:00:00 UTC"
    assert moment(1e300) == "Unix time 1e+300"
    assert moment(float("nan")) == "Unix time nan"


def test_one_thing_is_not_many() -> None:
    assert [count(number, "turn") for number in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]


@pytest.mark.parametrize(
    ("variables", "how"),
    [
        ({"TERM": "xterm-kitty", "COLORTERM": "truecolor"}, Way.KITTY),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, Way.KITTY),
        ({"TERM_PROGRAM": "ghostty"}, Way.KITTY),
        ({"TERM_PROGRAM": "iTerm.app"}, Way.ITERM2),
        ({"LC_TERMINAL": "iTerm2"}, Way.ITERM2),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, Way.BLOCKS),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux", "COLORTERM": "truecolor"}, Way.BLOCKS),
        ({"TERM": "screen", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
    ],
)
def test_a_terminal_tells_how_it_shows_pictures(variables: dict[str, str], how: Way | None) -> None:
    assert way(variables) is how


def big() -> bytes:
    """A picture that takes several pieces: noise, which PNG cannot make small."""
    file = io.BytesIO()
    Image.effect_noise((120, 120), 90).convert("RGB").save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("content", [png(), big()], ids=["small", "big"])
def test_kitty_gets_a_png_as_it_is_in_pieces_of_which_the_last_says_so(content: bytes) -> None:
    pieces = re.findall("\x1b_G([^;]*);([A-Za-z0-9+/=]*)\x1b\\\\", drawn(content, Way.KITTY, 80))
    assert base64.b64decode("".join(encoded for _, encoded in pieces)) == content
    assert pieces[0][0].startswith(f"a=T,f=100,q=2,r={ROWS},m=")
    assert [command.rpartition("m=")[2] for command, _ in pieces] == ["1"] * (len(pieces) - 1) + ["0"]
    assert all(len(encoded) <= 4096 for _, encoded in pieces)
    assert len(pieces) == -(-len(base64.b64encode(content)) // 4096)


def test_kitty_gets_any_other_picture_as_a_png() -> None:
    (encoded,) = re.findall("\x1b_G[^;]*;([^\x1b]*)\x1b\\\\", drawn(jpeg(8, 4), Way.KITTY, 80))
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        assert (picture.format, picture.size) == ("PNG", (8, 4))


def test_iterm2_gets_a_picture_as_it_is() -> None:
    found = re.fullmatch(
        "\x1b\\]1337;File=inline=1;size=([0-9]+);[^:]*:([^\x07]*)\x07\n", drawn(jpeg(), Way.ITERM2, 80)
    )
    assert found
    assert (int(found[1]), base64.b64decode(found[2])) == (len(jpeg()), jpeg())


@pytest.mark.parametrize(("size", "columns", "lines", "wide"), [((64, 64), 80, 18, 36), ((64, 64), 21, 10, 20)])
def test_any_other_terminal_gets_half_blocks_that_fit(
    size: tuple[int, int], columns: int, lines: int, wide: int
) -> None:
    rows = drawn(png(*size, colour=(1, 2, 3)), Way.BLOCKS, columns).splitlines()
    assert len(rows) == lines
    assert rows == ["\x1b[38;2;1;2;3;48;2;1;2;3m▀" * wide + "\x1b[0m"] * lines


def test_half_blocks_are_two_pixels_one_above_the_other() -> None:
    picture = Image.new("RGB", (1, 36), (255, 0, 0))
    picture.paste((0, 0, 255), (0, 1, 1, 2))
    file = io.BytesIO()
    picture.save(file, "PNG")
    first = drawn(file.getvalue(), Way.BLOCKS, 80).splitlines()[0]
    assert first == "\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[0m"


def test_what_is_no_picture_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERM", "TERM_PROGRAM", "KITTY_WINDOW_ID", "LC_TERMINAL", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    assert show(png(), wanted=False) == "this terminal does not say that it shows pictures"
    assert show(b"no picture", wanted=True) == "it cannot be read as a picture"


def test_a_terminal_without_half_blocks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "linux")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii", errors="backslashreplace"))
    assert show(png(), wanted=False) == "this terminal's encoding, ascii, has no half blocks"
