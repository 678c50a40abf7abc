"""The `e3rg` command."""

import argparse
import errno
import os
import sys
from pathlib import Path

from client.client import Client, ClientError
from client.reply import Reply
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb

OUTPUTS = {"text": pb.OUTPUT_TEXT, "audio": pb.OUTPUT_AUDIO, "video": pb.OUTPUT_VIDEO}


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        with Client(options.address) as client:
            status: int = options.run(client, options)
            return status
    except ClientError as error:
        print(f"e3rg: {error}", file=sys.stderr)
    except OSError as error:
        print(f"e3rg: {error.filename}: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def respond(client: Client, options: argparse.Namespace) -> int:
    """Sends one message and writes the reply."""
    header = pb.RespondHeader(
        text=options.text,
        identity=options.identity,
        conversation=options.conversation,
        reply_emotion=options.emotion,
        reply_intensity=options.intensity,
        policy=options.policy,
        output=OUTPUTS[options.output],
        seed=options.seed,
        quality=options.quality,
    )
    reply = Reply(options.out)
    try:
        for timed in client.respond(header, _content(options.audio), _content(options.video), options.timeout):
            for line in reply.take(timed):
                print(line, flush=True)
    finally:
        # What arrived of a turn that breaks off is kept.
        if reply.begun:
            print(*reply.finish(), sep="\n")
    return 0


def show_status(client: Client, options: argparse.Namespace) -> int:
    """Prints how every service is; fails unless all are ready."""
    services = client.status()
    for service in services:
        state = "ready" if service.ready else "NOT READY"
        detail = service.card.model or service.card.backend if service.ready else service.problem
        print(f"{service.name:22} {state:10} {detail}")
    print(f"emotion wheel {services[0].card.ontology_hash[:12]}")
    return 0 if all(service.ready for service in services) else 1


def list_identities(client: Client, options: argparse.Namespace) -> int:
    """Prints all identities, a line each."""
    for identity in client.identities():
        profile = identity.profile
        print(f"{identity.id:16} {profile.name:12} {profile.age:12} {profile.gender:8} {profile.about}")
    return 0


def show_identity(client: Client, options: argparse.Namespace) -> int:
    """Prints one identity."""
    identity = client.identity(options.id)
    profile, consent = identity.profile, identity.consent
    print(f"{identity.id}: {profile.name}, {profile.age}, {profile.gender}, {profile.timbre} voice, {profile.language}")
    if profile.about:
        print(profile.about)
    print(f"consent   {', '.join(consent.uses)}; by {consent.granted_by} on {consent.granted_on}")
    print(f"portrait  {identity.portrait.size_bytes} bytes, sha256 {identity.portrait.digest}")
    print(f"voice     {identity.voice.size_bytes} bytes, sha256 {identity.voice.digest}")
    return 0


def add_identity(client: Client, options: argparse.Namespace) -> int:
    """Adds an identity."""
    header = memory.AddIdentityHeader(
        id=options.id,
        profile=common.Profile(
            name=options.name or options.id.capitalize(),
            age=options.age,
            gender=options.gender,
            timbre=options.timbre,
            language=options.language,
            about=options.about,
        ),
        consent=memory.Consent(granted_by=options.consent_by, granted_on=options.consent_on, uses=options.consent_use),
    )
    added = client.add_identity(header, options.portrait.read_bytes(), options.voice.read_bytes())
    print(f"added {added.id}")
    return 0


def remove_identity(client: Client, options: argparse.Namespace) -> int:
    """Removes an identity."""
    print(f"removed {options.id} and {client.remove_identity(options.id)} objects")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="e3rg", description="Talks to an E3RG deployment.")
    default = os.environ.get("E3RG_ADDRESS", "127.0.0.1:50051")
    parser.add_argument("--address", default=default, help="orchestrator, or E3RG_ADDRESS (default: %(default)s)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_respond(commands.add_parser("respond", help="send one message, write the reply"))
    commands.add_parser("status", help="show how every service is").set_defaults(run=show_status)
    identity = commands.add_parser("identity", help="list, show, add or remove identities")
    actions = identity.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("list").set_defaults(run=list_identities)
    for name, run in (("show", show_identity), ("remove", remove_identity)):
        action = actions.add_parser(name)
        action.add_argument("id")
        action.set_defaults(run=run)
    _add_identity(actions.add_parser("add"))
    return parser


def _add_respond(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=respond)
    parser.add_argument("--text", type=_text, default="", help="what the person types")
    parser.add_argument("--audio", type=Path, help="what the person says: WAV, FLAC, Ogg, MP3 or M4A")
    parser.add_argument("--video", type=Path, help="the person on video: MP4 or WebM")
    parser.add_argument("--identity", default="anna", help="who answers (default: %(default)s)")
    parser.add_argument("--conversation", default="", help="name of the conversation; without one nothing is kept")
    parser.add_argument("--emotion", default="", help="what the avatar must feel; the policy decides without")
    parser.add_argument("--intensity", type=float, help="how strongly, 0 to 1; only with --emotion")
    parser.add_argument("--policy", default="", help="empathic (default) or mirror")
    parser.add_argument("--output", choices=OUTPUTS, default="video", help="how much of a reply (default: %(default)s)")
    parser.add_argument(
        "--quality", default="", help="quality tier of the video; the best that there is time for without"
    )
    parser.add_argument("--seed", type=_seed, default=0, help="same seed, same draw of the reply")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the reply (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=120, help="deadline in seconds (default: %(default)s)")


def _add_identity(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=add_identity)
    parser.add_argument("id", help="lower-case letters, digits, hyphens")
    parser.add_argument("--portrait", type=Path, required=True, help="PNG or JPEG with one face")
    parser.add_argument("--voice", type=Path, required=True, help="WAV file of the voice")
    parser.add_argument("--name", type=_text, default="", help="name as spoken")
    parser.add_argument("--age", required=True, choices=["child", "young", "middle-aged", "elderly"])
    parser.add_argument("--gender", required=True, choices=["female", "male"])
    parser.add_argument("--timbre", default="mid", choices=["high", "mid", "low"])
    parser.add_argument("--language", default="en")
    parser.add_argument("--about", type=_text, default="", help="one sentence about the person")
    parser.add_argument("--consent-by", required=True, help="who allows the use of the face and the voice")
    parser.add_argument("--consent-on", required=True, help="when, as YYYY-MM-DD")
    parser.add_argument(
        "--consent-use",
        action="append",
        required=True,
        choices=["animate_face", "clone_voice", "keep_turns"],
        help="what is allowed; may be given several times",
    )


def _content(path: Path | None) -> bytes:
    if path is None:
        return b""
    content = path.read_bytes()
    if not content:
        raise OSError(errno.ENODATA, "the file is empty", str(path))
    return content


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{value!a} is not UTF-8; check the terminal's locale") from None
    return value


def _seed(value: str) -> int:
    if not value.isdecimal() or int(value) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"{value!r} is no seed; give 0 to {(1 << 32) - 1}")
    return int(value)


if __name__ == "__main__":
    sys.exit(main())
