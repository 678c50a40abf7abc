"""`e3rg identity add` and `e3rg identity change`."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from client.client import Client
from client.commands.arguments import USES, Refusal, number, text
from client.identities import Files
from client.identity_lines import KINDS, difference
from client.terminal import say
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as pb

_PROFILE = ("name", "age", "gender", "timbre", "language", "about", "speaking_style")


def add_adding(parser: argparse.ArgumentParser) -> None:
    """Fills the parser of `e3rg identity add`."""
    parser.set_defaults(run=add)
    parser.add_argument("id", type=text, help="lower-case letters, digits, hyphens; 63 at most, first a letter")
    _add_files(parser, "", "may be given several times")
    _add_profile(parser, required=True)
    _add_grants(parser, required=True)


def add_changing(parser: argparse.ArgumentParser) -> None:
    """Fills the parser of `e3rg identity change`."""
    parser.set_defaults(run=change)
    parser.add_argument("id", type=text)
    parser.add_argument("--version", type=number, help="the one that you have seen (default: the present one)")
    _add_files(parser, "add-", "in addition")
    parser.add_argument(
        "--remove", action="append", default=[], metavar="DIGEST", help="file that goes; the digest's beginning will do"
    )
    _add_profile(parser, required=False)
    _add_grants(parser, required=False)
    parser.add_argument(
        "--revoke", action="append", default=[], choices=USES, help="what is not allowed any more; may be repeated"
    )


def add(client: Client, options: argparse.Namespace) -> int:
    """Adds an identity."""
    profile = common.Profile(**{field: getattr(options, field) for field in _PROFILE})
    profile.name = options.name or options.id.capitalize()
    header = pb.AddIdentityHeader(id=options.id, profile=profile, grants=_grants(options), emotion_bank=options.bank)
    added = client.identities.add(header, _files(options))
    say(f"added {added.id}")
    return 0


def change(client: Client, options: argparse.Namespace) -> int:
    """Changes an identity and prints what is other now."""
    grants = _grants(options)
    before = client.identities.get(options.id)
    header = pb.ChangeIdentityHeader(id=options.id, if_version=options.version or before.version)
    given = {field: value for field in _PROFILE if (value := getattr(options, field)) is not None}
    if given:
        header.profile.CopyFrom(before.profile)
        for field, value in given.items():
            setattr(header.profile, field, value)
    if grants or options.revoke:
        header.grants.SetInParent()  # nothing allowed is not the same as nothing said
        header.grants.grants.extend(_allowed(before, grants, options.revoke))
    if options.bank is not None:
        header.emotion_bank = options.bank
    header.removed.extend(_found(before, digest) for digest in options.remove)
    files = _files(options)
    if len(header.ListFields()) == 2 and not files:  # those of which identity and which version
        raise Refusal("nothing would change; `e3rg identity change --help` says what can")
    after = client.identities.change(header, files)
    if after.version == header.if_version:
        say(f"nothing is different: {after.id} is still at version {after.version}")
        return 0
    say(f"changed {after.id} into version {after.version}")
    for line in difference(before, after):
        say(f"  {line}")
    return 0


def _add_files(parser: argparse.ArgumentParser, prefix: str, times: str) -> None:
    needed = not prefix
    for kind, what, required in (
        ("portrait", "PNG or JPEG with one face", needed),
        ("voice", "WAV file of the voice", needed),
        ("film", "MP4 or WebM of the face", False),
    ):
        parser.add_argument(
            f"--{prefix}{kind}",
            dest=kind,
            type=Path,
            action="append",
            default=[],
            required=required,
            help=f"{what}; {times}",
        )


def _add_profile(parser: argparse.ArgumentParser, required: bool) -> None:
    """Without `required`, what is not given is None and stays as it is."""
    empty = "" if required else None
    parser.add_argument("--name", type=text, default=empty, help="name as spoken")
    parser.add_argument("--age", required=required, choices=["child", "young", "middle-aged", "elderly"])
    parser.add_argument("--gender", required=required, choices=["female", "male"])
    parser.add_argument("--timbre", default="mid" if required else None, choices=["high", "mid", "low"])
    parser.add_argument("--language", type=text, default="en" if required else None, help="ISO 639-1, such as en")
    parser.add_argument("--about", type=text, default=empty, help="one sentence about the person")
    parser.add_argument("--speaking-style", type=text, default=empty, help="how the person talks, in a few words")
    parser.add_argument("--bank", type=text, default=empty, help="emotion bank: what the identity can show")


def _add_grants(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument(
        "--grant",
        type=_use,
        action="append",
        default=[],
        required=required,
        metavar="USE[:UNTIL]",
        help=f"what is allowed: {', '.join(USES)}; until which day, as YYYY-MM-DD; may be given several times",
    )
    parser.add_argument("--granted-by", type=text, required=required, default="", help="who allows that")
    parser.add_argument("--granted-on", type=text, help="when, as YYYY-MM-DD (default: today, in UTC)")
    parser.add_argument("--purpose", type=text, default="", help="what for")


def _use(value: str) -> tuple[str, str]:
    use, _, until = value.partition(":")
    if use not in USES:
        raise argparse.ArgumentTypeError(f"{use!r} is unknown; use one of: {', '.join(USES)}")
    return use, text(until)


def _grants(options: argparse.Namespace) -> list[pb.Grant]:
    if options.grant and not options.granted_by:
        raise Refusal("--grant needs --granted-by: who allows that?")
    if not options.grant and (options.granted_by or options.granted_on or options.purpose):
        raise Refusal("--granted-by, --granted-on and --purpose need --grant: what is allowed?")
    granted_on = options.granted_on or datetime.now(UTC).date().isoformat()
    return [
        pb.Grant(use=use, granted_by=options.granted_by, granted_on=granted_on, purpose=options.purpose, until=until)
        for use, until in options.grant
    ]


def _allowed(before: pb.Identity, grants: Sequence[pb.Grant], revoked: Sequence[str]) -> list[pb.Grant]:
    """All that is allowed from now on."""
    allowed = {grant.use: grant for grant in before.grants}
    for use in revoked:
        if use not in allowed:
            raise Refusal(f"{before.id} does not allow {use}; it allows {', '.join(allowed) or 'nothing'}")
        del allowed[use]
    return list((allowed | {grant.use: grant for grant in grants}).values())


def _found(before: pb.Identity, beginning: str) -> str:
    found = [file.digest for file in before.references if file.digest.startswith(beginning)]
    if len(found) != 1 or not beginning:
        there = ", ".join(f"{KINDS.get(file.kind, '')} {file.digest[:12]}" for file in before.references)
        raise Refusal(f"{beginning!r} is the beginning of {len(found)} of {before.id}'s files: {there}")
    return found[0]


def _files(options: argparse.Namespace) -> Files:
    return [(kind, path) for kind, name in KINDS.items() for path in getattr(options, name)]
