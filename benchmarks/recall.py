"""Prints the reply to every dialogue of `benchmarks/recall_dialogues.toml`, and how often it referred to what was said.

    python -m benchmarks.recall [--seed 0]

Memory's part is played by the same sentence reader: each earlier turn of a dialogue is a memory with its cosine to the
message. First comes the table that the thresholds were read off: for each similarity, what share of the right turns of
the part "fit" is as near as that, and what share of the other turns, and of any two stored messages.
"""

import argparse
import time
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import emotions
from perception.text import SentenceReader
from services.mllm.backends import smollm2
from services.mllm.domain import Memory, Message, Profile, ReplyRecord, ReplyRequest, ReplySentence, Utterance
from services.mllm.reply.exemplars import Exemplars
from services.mllm.reply.recall import ELSEWHERE_SIMILARITY_MIN, SIMILARITY_MIN

DIALOGUES = Path(__file__).with_name("recall_dialogues.toml")
PROFILE = Profile(name="Anna", age="young", gender="female", timbre="mid")
THRESHOLDS = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
MEMORIES_MAX = 8


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", action="store_true", help="print the table of similarities only")
    arguments = parser.parse_args()
    dialogues = tomllib.loads(DIALOGUES.read_text("utf-8"))["dialogues"]
    reader = SentenceReader(smollm2.Settings().models_dir)
    print_table([one for one in dialogues if one["part"] == "fit"], reader)
    if not arguments.table:
        print_replies(dialogues, reader, arguments.seed)


def print_table(dialogues: Sequence[dict[str, Any]], reader: SentenceReader) -> None:
    """Prints what each threshold lets through of right turns and of strangers'."""
    wanted: list[float] = []
    strange: list[float] = []
    for one in dialogues:
        for memory in memories_of(one, reader):
            (wanted if one["about"] and one["about"] in memory.text else strange).append(memory.similarity)
    exemplars = Exemplars()
    apart = exemplars.vectors @ exemplars.vectors.T
    pairs = apart[np.triu_indices_from(apart, 1)]
    print(f"similarity   right turns ({len(wanted)})   other turns ({len(strange)})   stored messages in pairs")
    for least in THRESHOLDS:
        shares = [100 * float(np.mean(np.array(found) >= least)) for found in (wanted, strange, pairs)]
        print(f"{least:10.2f}   {shares[0]:13.0f} %   {shares[1]:13.0f} %   {shares[2]:22.2f} %")
    print(f"used from {SIMILARITY_MIN} on, of other conversations from {ELSEWHERE_SIMILARITY_MIN} on\n")


def print_replies(dialogues: Sequence[dict[str, Any]], reader: SentenceReader, seed: int) -> None:
    """Prints a reply to each dialogue and counts right, missed and unwanted references, by part."""
    backend = smollm2.create()
    counts: dict[tuple[str, str], int] = {}
    for one in dialogues:
        request = request_of(one, reader, seed)
        began = time.process_time()
        said, record = written(backend.write(request))
        whole_s = time.process_time() - began
        referred = next((use.sentence for use in record.memories if use.sentence), "")
        verdict = verdict_of(referred, one["about"])
        counts[one["part"], verdict] = counts.get((one["part"], verdict), 0) + 1
        print(f"[{request.user_emotion}] {request.message.text}\n    {' '.join(said)}")
        print(f"    {verdict}  {whole_s:.2f} s of processor time")
        for memory, use in zip(request.memories, record.memories, strict=True):
            print(f"        {memory.similarity:.2f} {memory.text}  {use.unused and f'({use.unused})'}")
    backend.close()
    for (part, verdict), count in sorted(counts.items()):
        print(f"{part}: {verdict} {count}")


def written(pieces: Iterable[ReplySentence | ReplyRecord]) -> tuple[list[str], ReplyRecord]:
    """Returns the sentences of a reply and its record."""
    said, record = [], ReplyRecord()
    for piece in pieces:
        if isinstance(piece, ReplyRecord):
            record = piece
        else:
            said.append(piece.text)
    return said, record


def verdict_of(referred: str, about: str) -> str:
    """Returns what a reference is worth: right, missed, wrong, unwanted, or rightly none."""
    if about:
        return "missed" if not referred else "right" if about in referred else "wrong"
    return "unwanted" if referred else "rightly none"


def memories_of(dialogue: dict[str, Any], reader: SentenceReader) -> tuple[Memory, ...]:
    """Returns the earlier turns of a dialogue as memory would recall them, the nearest first."""
    turns = dialogue["turns"]
    *earlier, now = reader.embed([text for _, text, _ in turns] + [dialogue["message"][1]])
    recalled = [
        Memory(text, label, len(turns) - place, 60.0 * (len(turns) - place), float(vector @ now))
        for place, ((label, text, _), vector) in enumerate(zip(turns, earlier, strict=True))
    ]
    return tuple(sorted(recalled, key=lambda memory: -memory.similarity)[:MEMORIES_MAX])


def request_of(dialogue: dict[str, Any], reader: SentenceReader, seed: int) -> ReplyRequest:
    """Returns the order of the reply to a dialogue's message."""
    label, text = dialogue["message"]
    history = tuple(
        utterance
        for felt, said, answered in dialogue["turns"]
        for utterance in (Utterance("user", said, felt), Utterance("avatar", answered))
    )
    memories = memories_of(dialogue, reader)
    message = Message(text=text, history=history)
    return ReplyRequest(message, label, emotions.load().reply_to(label).label, PROFILE, seed, memories)


if __name__ == "__main__":
    main()
