"""Asks a running stack to answer the messages of `reply_messages/`, and counts how readers judged the answers.

    python -m benchmarks.replies say 127.0.0.1:50051 anna open_1.txt open_conversations.txt > said.tsv
    python -m benchmarks.replies count reply_messages/locked_*.tsv

`say` prints a line of tab-separated fields for each message: the message, the user's emotion, how the reply came about,
the reply, and the seconds to its first sentence. In a file of conversations a blank line ends one. `count` prints what
share of the replies each reader took for sayable, odd and harmful, and how often two readers agree. A reading is a line
of the grade (s, o or h), the message and the reply; the rubric stands in `reply_messages/README.md`. The half called
`locked` is for one look at the end.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

from client.client import Client
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb

FOLDER = Path(__file__).with_name("reply_messages")
GRADES = {"s": "sayable", "o": "odd", "h": "harmful"}


def conversations(path: Path) -> list[list[str]]:
    """Return the conversations of a file; of a file of single messages each is one."""
    parts = [part.splitlines() for part in path.read_text("utf-8").strip().split("\n\n")]
    return parts if len(parts) > 1 else [[line] for line in parts[0]]


def answered(client: Client, identity: str, texts: list[str], seed: int) -> Iterator[tuple[str, ...]]:
    """Yield message, emotion, how, reply and seconds to the first sentence of each message of a conversation."""
    conversation = f"replies-{uuid4().hex[:12]}" if len(texts) > 1 else ""
    for text in texts:
        header = pb.RespondHeader(
            text=text, identity=identity, conversation=conversation, seed=seed, output=pb.OUTPUT_TEXT
        )
        said: list[str] = []
        emotion, how, first_s = "", "", 0.0
        for timed in client.respond(header):
            event = timed.event
            if event.HasField("understood"):
                emotion = event.understood.emotion.label or "none"
            elif event.HasField("text"):
                first_s = first_s or timed.seconds
                said.append(event.text.sentence)
            elif event.HasField("done"):
                how = how_of(event.done)
        yield text, emotion, how, " ".join(said), f"{first_s:.2f}"


def how_of(done: pb.Done) -> str:
    """Return how a reply came about: why the panel said it, or that a writer did, and tone."""
    record = done.record
    return " ".join(filter(None, (record.degraded or "written", record.tone)))


def say(arguments: argparse.Namespace) -> None:
    """Print the answers to files of messages, and which replies of a conversation were said before in it."""
    repeated = first = 0
    with Client(arguments.address) as client:
        for name in arguments.files:
            for texts in conversations(FOLDER / name):
                heard: list[str] = []
                for row in answered(client, arguments.identity, texts, arguments.seed):
                    print("\t".join(row), flush=True)
                    repeated += row[3] in heard
                    heard.append(row[3])
                    first += 1
    print(f"{first} replies, {repeated} said before in their conversation", file=sys.stderr)


def count(arguments: argparse.Namespace) -> None:
    """Print the table of readings."""
    readings = []
    for path in arguments.files:
        rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line]
        readings.append({(message, reply): grade for grade, message, reply in rows})
        total = Counter(readings[-1].values())
        shares = ", ".join(f"{GRADES[grade]} {total[grade]} ({total[grade] / len(rows):.1%})" for grade in GRADES)
        print(f"{path.name}: {len(rows)} replies: {shares}")
    for one, other in pairwise(readings):
        both = one.keys() & other.keys()
        if both:
            agreed = sum(one[key] == other[key] for key in both)
            print(f"of {len(both)} that two readers read, they agree on {agreed} ({agreed / len(both):.1%})")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    saying = commands.add_parser("say")
    saying.add_argument("address")
    saying.add_argument("identity")
    saying.add_argument("files", nargs="+")
    saying.add_argument("--seed", type=int, default=0)
    saying.set_defaults(run=say)
    counting = commands.add_parser("count")
    counting.add_argument("files", nargs="+", type=Path)
    counting.set_defaults(run=count)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
