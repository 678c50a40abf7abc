"""Prints a reply to every message of `benchmarks/reply_messages.toml`, to be read and judged by a person.

    python benchmarks/replies.py [--seed 0]

One line per message with the emotion, the reply, how it came about and the processor seconds to the first sentence
and to the end; then what share fell back on a stored reply, and which rules refused how many candidates.
"""

import argparse
import time
import tomllib
from collections import Counter
from pathlib import Path

import emotions
from services.mllm.backends import smollm2
from services.mllm.domain import Message, Profile, ReplyRecord, ReplyRequest

MESSAGES = Path(__file__).with_name("reply_messages.toml")
PROFILE = Profile(name="Anna", age="young", gender="female", timbre="mid")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rejected", action="store_true", help="also print what the gate refused")
    arguments = parser.parse_args()
    messages = tomllib.loads(MESSAGES.read_text("utf-8"))["messages"]
    started = time.process_time()
    backend = smollm2.create()
    print(f"loaded and warm after {time.process_time() - started:.1f} s of processor time\n")
    rules: Counter[str] = Counter()
    firsts, wholes, degraded = [], [], 0
    for label, text in messages:
        reply_label = emotions.load().reply_to(label).label
        request = ReplyRequest(Message(text=text), label, reply_label, PROFILE, seed=arguments.seed)
        began, first, said, record = time.process_time(), 0.0, [], ReplyRecord()
        for piece in backend.write(request):
            if isinstance(piece, ReplyRecord):
                record = piece
                continue
            first = first or time.process_time() - began
            said.append(piece.text)
        whole = time.process_time() - began
        firsts.append(first)
        wholes.append(whole)
        degraded += bool(record.degraded)
        rules.update(line.split(":")[0] for line in record.rejected)
        print(
            f"[{label}] {text}\n    {' '.join(said)}\n    {record.degraded or 'written'}  {first:.2f} s  {whole:.2f} s"
        )
        if arguments.rejected:
            print("".join(f"        {line}\n" for line in record.rejected), end="")
    backend.close()
    count = len(messages)
    print(f"\n{count} replies, {degraded} of them stored ones ({100 * degraded / count:.0f} %)")
    print(f"first sentence: median {sorted(firsts)[count // 2]:.2f} s, worst {max(firsts):.2f} s")
    print(f"whole reply:    median {sorted(wholes)[count // 2]:.2f} s, worst {max(wholes):.2f} s")
    print("refused candidates: " + ", ".join(f"{rule} {times}" for rule, times in rules.most_common()))


if __name__ == "__main__":
    main()
