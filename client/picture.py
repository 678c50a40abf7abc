"""Shows a picture in a terminal that can."""

import base64
import io
import os
import shutil
import sys
import warnings
from collections.abc import Mapping
from enum import Enum

try:
    from PIL import Image, ImageOps

    PILLOW = True
except ImportError:  # the client needs it for this only
    PILLOW = False

ROWS = 18
"""Height of a picture in lines of text."""

_PIECE_CHARS = 4096
"""The largest that kitty takes at once."""

_PNG = b"\x89PNG\r\n\x1a\n"


class Way(Enum):
    """How a terminal shows pictures."""

    KITTY = "kitty's graphics protocol: PNG only"
    ITERM2 = "iTerm2's inline images"
    BLOCKS = "half blocks in two colours each"


def way(environment: Mapping[str, str]) -> Way | None:
    """Returns how this terminal says that it shows pictures; None when it says nothing of the kind.

    Sources: https://sw.kovidgoyal.net/kitty/graphics-protocol/, https://iterm2.com/documentation-images.html
    """
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    # A multiplexer passes its own terminal's variables on, but not the pictures.
    if "TMUX" not in environment and not term.startswith(("screen", "tmux")):
        if term in ("xterm-kitty", "xterm-ghostty") or "KITTY_WINDOW_ID" in environment or program == "ghostty":
            return Way.KITTY
        if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
            return Way.ITERM2
    if environment.get("COLORTERM") in ("truecolor", "24bit"):
        return Way.BLOCKS
    return None


def drawn(content: bytes, how: Way, columns_max: int) -> str:
    """Returns what to write to the terminal, with its line's end; empty when the picture cannot be shown that way.

    Args:
        content: A PNG or JPEG file.
        how: The terminal's way.
        columns_max: Width of the terminal in characters.
    """
    if how is Way.ITERM2:
        encoded = base64.b64encode(content).decode("ascii")
        return f"\x1b]1337;File=inline=1;size={len(content)};height={ROWS};preserveAspectRatio=1:{encoded}\x07\n"
    if how is Way.KITTY and content.startswith(_PNG):
        return _kitty(content)
    picture = _opened(content)
    if picture is None:
        return ""
    if how is Way.BLOCKS:
        return _blocks(picture, columns_max)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return _kitty(file.getvalue())


def show(content: bytes, wanted: bool) -> str:
    """Shows a picture on standard output.

    Args:
        content: A PNG or JPEG file.
        wanted: Somebody asked for it: half blocks are tried even if the terminal does not say that it has the colours.

    Returns:
        Why it was not shown; empty when it was.
    """
    how = way(os.environ) or (Way.BLOCKS if wanted else None)
    if how is None:
        return "this terminal does not say that it shows pictures"
    text = drawn(content, how, shutil.get_terminal_size().columns)
    if not text:
        return "Pillow is needed to show it in this terminal" if not PILLOW else "it cannot be read as a picture"
    try:
        text.encode(sys.stdout.encoding)  # which would write out what it lacks, instead of failing
    except UnicodeEncodeError:
        return f"this terminal's encoding, {sys.stdout.encoding}, has no half blocks"
    sys.stdout.write(text)
    sys.stdout.flush()
    return ""


def _kitty(png: bytes) -> str:
    encoded = base64.b64encode(png).decode("ascii")
    starts = range(0, len(encoded), _PIECE_CHARS)
    # q=2: the terminal's answer would arrive as if it were typed.
    pieces = [
        f"\x1b_G{f'a=T,f=100,q=2,r={ROWS},' * (not start)}m={int(start != starts[-1])};"
        f"{encoded[start : start + _PIECE_CHARS]}\x1b\\"
        for start in starts
    ]
    return "".join(pieces) + "\n"


def _opened(content: bytes) -> "Image.Image | None":
    if not PILLOW:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = ImageOps.exif_transpose(Image.open(io.BytesIO(content), formats=("PNG", "JPEG")))
            return picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None


def _blocks(picture: "Image.Image", columns_max: int) -> str:
    """Each character is two pixels, one above the other: the upper half in front, the lower half behind it."""
    scale = min(2 * ROWS / picture.height, max(columns_max - 1, 1) / picture.width)
    width_px = max(round(picture.width * scale), 1)
    height_px = 2 * max(round(picture.height * scale / 2), 1)
    pixels = picture.resize((width_px, height_px)).tobytes()
    lines = []
    for row in range(0, height_px, 2):
        line = []
        for column in range(width_px):
            upper = (row * width_px + column) * 3
            lower = upper + width_px * 3
            front, back = pixels[upper : upper + 3], pixels[lower : lower + 3]
            line.append(f"\x1b[38;2;{front[0]};{front[1]};{front[2]};48;2;{back[0]};{back[1]};{back[2]}m▀")
        lines.append("".join(line) + "\x1b[0m\n")
    return "".join(lines)
