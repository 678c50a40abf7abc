"""`e3rg identity`: who the avatars are."""

import argparse
import sys
from pathlib import Path

import grpc

from client.client import Client
from client.commands import changes
from client.commands.arguments import add_erasing, confirm, number, text
from client.connection import ClientError
from client.erasure_lines import audit_lines
from client.files import write_whole
from client.identity_lines import difference, identity_lines, version_of
from client.picture import show as show_picture
from client.terminal import complain, say
from e3rg.memory.v1 import identities_pb2 as pb


def add_to(parser: argparse.ArgumentParser) -> None:
    """Fills the parser of `e3rg identity`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    changes.add_adding(actions.add_parser("add", help="add one: a portrait and a voice will do"))
    changes.add_changing(actions.add_parser("change", help="change one into its next version"))
    actions.add_parser("list", help="show all, a line each").set_defaults(run=show_all)
    for name, run, purpose in (
        ("show", show, "show one, with its picture where the terminal can"),
        ("history", history, "show what changed from version to version"),
        ("export", export, "write the whole identity to a tar file"),
        ("erase", erase, "erase one with all that was ever kept of it"),
    ):
        action = actions.add_parser(name, help=purpose)
        action.set_defaults(run=run)
        action.add_argument("id", type=text)
        if run is show:
            action.add_argument("--version", type=number, default=0, help="an earlier one (default: the present one)")
            action.add_argument(
                "--picture", action=argparse.BooleanOptionalAction, help="default: where the terminal can show it"
            )
        if run is export:
            action.add_argument("file", type=Path, help="replaced when it is there")
        if run is erase:
            add_erasing(action)
    importing = actions.add_parser("import", help="add an identity out of such a file")
    importing.set_defaults(run=import_)
    importing.add_argument("file", type=Path)
    importing.add_argument("--as", dest="id", type=text, default="", help="id that it gets (default: the one it had)")


def show_all(client: Client, options: argparse.Namespace) -> int:
    """Prints all identities, a line each; tells of the damaged ones at the end, and fails if there are any."""
    damaged: list[pb.DamagedIdentity] = []
    for identity in client.identities.all(damaged.append):
        profile = identity.profile
        say(f"{identity.id:16} {profile.name:12} {profile.age:12} {profile.gender:8} {profile.about}")
    for each in damaged:
        complain(f"identity {each.id}: {each.problem}")
    return 1 if damaged else 0


def show(client: Client, options: argparse.Namespace) -> int:
    """Prints one identity."""
    identity = client.identities.get(options.id, options.version)
    if options.picture or (options.picture is None and sys.stdout.isatty()):
        problem = _show_portrait(client, identity, wanted=bool(options.picture))
        if problem and options.picture:
            complain(f"no picture: {problem}")
    for line in identity_lines(identity):
        say(line)
    say(f"version    {version_of(identity)}")
    return 0


def history(client: Client, options: argparse.Namespace) -> int:
    """Prints what changed from version to version, the oldest first."""
    last = client.identities.get(options.id)
    before: pb.Identity | None = None
    for version in range(1, last.version + 1):
        try:
            identity = last if version == last.version else client.identities.get(options.id, version)
        except ClientError as error:
            # It was erased meanwhile.
            if error.status is not grpc.StatusCode.NOT_FOUND:
                raise
            say(f"version {version}: {error.message}")
            continue
        say(f"version {version_of(identity)}")
        for line in identity_lines(identity) if before is None else difference(before, identity):
            say(f"  {line}")
        before = identity
    return 0


def export(client: Client, options: argparse.Namespace) -> int:
    """Writes an identity to a file, which is there whole or not at all."""
    size = write_whole(options.file, client.identities.export(options.id))
    say(f"written {options.file} ({size} bytes)")
    return 0


def import_(client: Client, options: argparse.Namespace) -> int:
    """Adds an identity out of a file."""
    added = client.identities.import_(options.file, options.id)
    say(f"added {added.id}")
    return 0


def erase(client: Client, options: argparse.Namespace) -> int:
    """Erases an identity and prints the record of that."""
    confirm(f"identity {options.id} of tenant {options.tenant}", options.yes)
    for line in audit_lines(client.erasure.identity(options.id, options.asked_by)):
        say(line)
    return 0


def _show_portrait(client: Client, identity: pb.Identity, wanted: bool) -> str:
    """Returns why it was not shown; empty when it was."""
    if not sys.stdout.isatty():
        return "standard output is no terminal"
    portraits = [file.digest for file in identity.references if file.kind == pb.REFERENCE_KIND_PORTRAIT]
    if not portraits:
        return "it has no portrait"
    try:
        return show_picture(b"".join(client.identities.file(identity.id, portraits[0])), wanted)
    except ClientError as error:
        return error.message  # its use is not allowed, or it went with a later version
