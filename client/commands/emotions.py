"""`e3rg emotion`: what shows voices and faces an emotion, and what identities can show."""

import argparse
from pathlib import Path

from client.client import Client
from client.commands.arguments import Refusal, text, toml
from client.files import write_whole
from client.terminal import say
from e3rg.memory.v1 import identities_pb2 as pb

GENERATORS = {"voice": pb.GENERATOR_VOICE, "face": pb.GENERATOR_FACE}
_NAMES = {number: name for name, number in GENERATORS.items()}
_MEDIA_TYPES = {
    ".wav": "audio/wav",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}
"""By suffix: what voice and face look at before it is kept. A face's priors are of the renderer's own kind."""

_UNREAD = "No back-end, embedded or not, reads emotional references yet: they are kept, listed and given back."
_LOOKED_AT = (
    "Before it is kept, voice listens to a recording (WAV), and face looks at a picture (PNG, JPEG) or a film (MP4,"
    " WebM). A face's prior in a renderer's own format is kept as it is."
)

_BANK_KEYS = {"name", "face_classes", "voice_styles"}


def add_to(parser: argparse.ArgumentParser) -> None:
    """Fills the parser of `e3rg emotion`."""
    parser.description = _UNREAD
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for name, run, purpose in (
        ("put", put, "keep a recording in a voice style, or a picture, film or prior of a face class"),
        ("get", get, "write the one that holds to a file"),
        ("remove", remove, "remove one"),
        ("list", show_all, "show which hold"),
    ):
        action = actions.add_parser(name, help=purpose)
        action.set_defaults(run=run)
        if run is not show_all:
            action.add_argument("generator", choices=GENERATORS)
            action.add_argument("name", type=text, help="a voice style or a face class of the emotion wheel")
        if run in (put, get):
            action.add_argument("file", type=Path)
        if run is put:
            action.description = f"{_LOOKED_AT} {_UNREAD}"
            action.add_argument("--media-type", type=text, help="MIME type (default: by the file's name)")
        action.add_argument("--identity", type=text, default="", help="its own; without, the tenant's")
    bank = actions.add_parser("bank", help="store what the identities that name this bank can show")
    bank.add_argument("file", type=Path, help="TOML: name, face_classes, voice_styles")
    bank.set_defaults(run=put_bank)


def put(client: Client, options: argparse.Namespace) -> int:
    """Keeps an emotional reference."""
    media_type = options.media_type or _MEDIA_TYPES.get(options.file.suffix.lower())
    if not media_type:
        raise Refusal(f"{options.file}: its name does not tell its MIME type; give --media-type")
    generator = GENERATORS[options.generator]
    say(f"kept {_line(client.emotions.put(generator, options.name, options.file, media_type, options.identity))}")
    return 0


def get(client: Client, options: argparse.Namespace) -> int:
    """Writes an emotional reference to a file."""
    parts = client.emotions.get(GENERATORS[options.generator], options.name, options.identity)
    say(f"written {options.file} ({write_whole(options.file, parts)} bytes)")
    return 0


def remove(client: Client, options: argparse.Namespace) -> int:
    """Removes an emotional reference."""
    client.emotions.remove(GENERATORS[options.generator], options.name, options.identity)
    say(f"removed {options.generator} {options.name}")
    return 0


def show_all(client: Client, options: argparse.Namespace) -> int:
    """Prints the emotional references that hold, a line each."""
    for reference in client.emotions.all(options.identity):
        say(_line(reference))
    return 0


def put_bank(client: Client, options: argparse.Namespace) -> int:
    """Stores an emotion bank."""
    content = toml(options.file)
    if set(content) != _BANK_KEYS:
        raise Refusal(f"{options.file}: it has {', '.join(content) or 'nothing'}; give {', '.join(sorted(_BANK_KEYS))}")
    try:
        bank = pb.EmotionBank(**content)
    except TypeError as error:
        raise Refusal(f"{options.file}: name is a text, the others lists of texts: {error}") from None
    client.emotions.put_bank(bank)
    say(f"stored {bank.name}")
    return 0


def _line(reference: pb.EmotionReference) -> str:
    whose = "its own" if reference.own else "the tenant's"
    generator = _NAMES.get(reference.generator, str(reference.generator))
    return (
        f"{generator:6} {reference.name:12} {whose:12} {reference.size_bytes:>9} bytes  {reference.media_type}"
        f"  {reference.digest[:12]}"
    )
