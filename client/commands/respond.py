"""`e3rg respond`: one turn."""

import argparse
from pathlib import Path

from client.client import Client
from client.commands.arguments import number, seconds, text, variant
from client.reply import Reply
from client.terminal import say
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb

OUTPUTS = {"text": pb.OUTPUT_TEXT, "audio": pb.OUTPUT_AUDIO, "video": pb.OUTPUT_VIDEO}


def add_to(parser: argparse.ArgumentParser) -> None:
    """Fills the parser of `e3rg respond`."""
    parser.set_defaults(run=respond)
    parser.add_argument("--text", type=text, default="", help="what the person types")
    parser.add_argument("--audio", type=Path, help="what the person says: WAV, FLAC, Ogg, MP3 or M4A")
    parser.add_argument("--video", type=Path, help="the person on video: MP4 or WebM")
    parser.add_argument("--identity", type=text, default="anna", help="who answers (default: %(default)s)")
    parser.add_argument(
        "--conversation", type=text, default="", help="name of the conversation; without one nothing is kept"
    )
    parser.add_argument(
        "--person", type=text, default="", help="who the person is: what they said is recalled in all conversations"
    )
    parser.add_argument(
        "--country",
        type=text,
        default="",
        help="country for help lines, as DE (default: the deployment's)",
    )
    parser.add_argument("--keep-clips", action="store_true", help="keep the reply's speech and video with the turn")
    parser.add_argument(
        "--emotion", type=text, default="", help="what the avatar must feel; the policy decides without"
    )
    parser.add_argument("--intensity", type=float, help="how strongly, 0 to 1; only with --emotion")
    parser.add_argument("--policy", type=text, default="", help="empathic (default) or mirror")
    parser.add_argument("--output", choices=OUTPUTS, default="video", help="how much of a reply (default: %(default)s)")
    parser.add_argument(
        "--quality", type=text, default="", help="quality tier of the video; the best that there is time for without"
    )
    parser.add_argument("--seed", type=number, default=0, help="same seed, same draw of the reply")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the reply (default: %(default)s)")
    parser.add_argument(
        "--variant",
        type=variant,
        action="append",
        default=[],
        metavar="STAGE=VARIANT",
        help="variant of a stage, for a test; may be given several times",
    )
    parser.add_argument("--timeout", type=seconds, default=120, help="deadline in seconds (default: %(default)s)")


def respond(client: Client, options: argparse.Namespace) -> int:
    """Sends one message and writes the reply."""
    header = pb.RespondHeader(
        text=options.text,
        identity=options.identity,
        conversation=options.conversation,
        person=options.person,
        country=options.country,
        keep_clips=options.keep_clips,
        reply_emotion=options.emotion,
        reply_intensity=options.intensity,
        policy=options.policy,
        output=OUTPUTS[options.output],
        seed=options.seed,
        quality=options.quality,
    )
    reply = Reply(options.out)
    try:
        events = client.respond(
            header, options.audio or b"", options.video or b"", options.timeout, dict(options.variant)
        )
        for timed in events:
            for line in reply.take(timed):
                say(line)
    finally:
        # What arrived of a turn that breaks off is kept.
        if reply.begun:
            for line in reply.finish():
                say(line)
    return 0
