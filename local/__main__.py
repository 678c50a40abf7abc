"""`python -m local up` keeps the deployment running; `demo` answers one message with it, `recall` three of one talk."""

import argparse
import os
import signal
import sys
import time
import uuid
from pathlib import Path

from client import command
from local.deployment import EXTRA_VOTERS, VOICES, WRITER, Deployment, DeploymentError

MESSAGE = Path(__file__).parent / "message.mp4"
"""The message that the demonstration answers when it is given none: a person who does not exist, made with `e3rg`."""

TALK = (
    "My dog Rex is very ill.",
    "I had toast for breakfast.",
    "We are at the vet now and I am so scared.",
)
"""A talk whose last message is about the first: the writer reads the last two utterances only, memory finds the dog."""

WATCH_S = 1.0
"""How often `up` looks whether every service still runs."""


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    parser.add_argument("--run-dir", type=Path, default=Path(".run"), help="logs and memory (default: %(default)s)")
    parser.add_argument("--models-dir", type=Path, default=Path(".models"), help="weights (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port of the orchestrator (default: a free one)")
    parser.add_argument(
        "--voter",
        action="append",
        default=[],
        metavar="NAME[=HOST:PORT]",
        help=f"put this voter on the panel too: {', '.join(EXTRA_VOTERS)}, or a model that is served at HOST:PORT",
    )
    parser.add_argument("--writer", default=WRITER, help="voter that writes the replies (default: %(default)s)")
    parser.add_argument("--voice", default=VOICES[0], help=f"one of: {', '.join(VOICES)} (default: %(default)s)")
    parser.add_argument("action", choices=["up", "demo", "recall"])
    options, rest = parser.parse_known_args()
    if rest and options.action == "up":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    # Without this, SIGTERM would end this process and leave the services running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        deployment = Deployment(
            options.run_dir,
            options.models_dir,
            options.port,
            lambda line: print(line, flush=True),
            extra_voters=options.voter,
            writer=options.writer,
            voice=options.voice,
        )
        with deployment:
            match options.action:
                case "up":
                    return _up(deployment)
                case "recall":
                    return _recall(deployment, rest)
            return _demo(deployment, rest)
    except DeploymentError as error:
        print(f"local: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _up(deployment: Deployment) -> int:
    print("try it from another terminal:")
    print(f"  E3RG_ADDRESS={deployment.address} .venv/bin/e3rg respond --text 'I lost my job today.'", flush=True)
    while True:
        time.sleep(WATCH_S)
        for name in deployment.dead():
            print(f"{name} stopped; starting it again", flush=True)
            deployment.start(name)


def _demo(deployment: Deployment, wishes: list[str]) -> int:
    """Answers what `make demo` was given in the environment, or else in `wishes`."""
    given = {name: os.environ.get(f"E3RG_DEMO_{name.upper()}") for name in ("text", "audio", "video", "identity")}
    wishes = [*wishes, *(f"--{name}={value}" for name, value in given.items() if value)]
    if not any(wish.startswith(("--text", "--audio", "--video")) for wish in wishes):
        wishes.append(f"--video={MESSAGE}")
    return command.main(["--address", deployment.address, "respond", *wishes])


def _recall(deployment: Deployment, wishes: list[str]) -> int:
    """Says `TALK` to the avatar, in a conversation of its own."""
    talk = f"talk-{uuid.uuid4().hex[:8]}"
    for number, text in enumerate(TALK, start=1):
        last = number == len(TALK)
        asked = ["--text", text, "--conversation", talk, *([] if last else ["--output", "text"]), *wishes]
        print(f"\n--- {number} of {len(TALK)}", flush=True)
        if status := command.main(["--address", deployment.address, "respond", *asked]):
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
