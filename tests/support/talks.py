"""Talks of several callers with a gateway whose conversations are split between two voices."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import Mix, Profile, Turn, in_background
from benchmarks.load.messages import TEXTS
from client import Client
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from perception.speaker import SpeakerReader
from tests.support.listening import Ear, Recording, from_pcm, from_wav

CALLERS = 8
IDENTITY = "kenji"
"""The voices are more alike in the other identities."""
VOICES = ("default", "kokoro")
BACKENDS = {"default": "hibari ", "kokoro": "kokoro "}
PROBABILITY_MIN = 0.01
LATE = ("reply: ", "search: ", "recall: what was remembered since")
"""Beginnings of losses that a busy machine makes, or the words of a writer that no gate lets pass."""
MOVED = "speech: the variant that was chosen"
"""Loss of a turn that another voice speaks than the one that was chosen."""
SPEAKER = Path(__file__).parents[2] / ".models" / "ge2e" / "pretrained.pt"


def talking(address: str, name: str, turns: int = 2, **changes: object) -> Profile:
    """Return a load of callers who send text and want voice, in conversations of so many turns."""
    wanted = {
        "users": CALLERS,
        "output": "audio",
        "conversations": True,
        "conversation_turns": turns,
        "duration_s": 3600.0,
        **changes,
    }
    return Profile(address, identity=IDENTITY, name=name, seed=17, mix=Mix(TEXTS), **wanted)  # type: ignore[arg-type]


def failed(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns without a whole reply, but for those that were refused: their callers make them again."""
    return [turn for turn in turns if turn.is_lost and turn.outcome != "refused"]


def losses(turns: Iterable[Turn]) -> set[str]:
    """Return what turns went on without because of a variant."""
    return {each for turn in turns for each in turn.degraded if not each.startswith(LATE)}


def by_conversation(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    """Return the answered turns of each conversation, in order."""
    found: dict[str, list[Turn]] = {}
    for turn in turns:
        if turn.kept_as:
            found.setdefault(turn.conversation, []).append(turn)
    return found


def chance(counts: Mapping[str, int], weights: Mapping[str, float]) -> float:
    """Return the probability of a split that is at least so uneven: chi-square of two classes."""
    assert len(weights) == 2
    total = sum(counts.values())
    expected = {name: total * weight / sum(weights.values()) for name, weight in weights.items()}
    chi2 = sum((counts.get(name, 0) - wanted) ** 2 / wanted for name, wanted in expected.items())
    return math.erfc(math.sqrt(chi2 / 2))


@dataclass(frozen=True)
class Talks:
    """Conversations that were held to their end.

    Attributes:
        made: All turns of the load.
        held: Answered turns of each of them.
    """

    made: Sequence[Turn]
    held: Mapping[str, Sequence[Turn]]

    @property
    def broken(self) -> list[str]:
        """Conversations in which another voice spoke later."""
        return [name for name, turns in self.held.items() if len({turn.variants["tts"] for turn in turns}) != 1]

    @property
    def split(self) -> Counter[str]:
        """Conversations by the voice of their first turn."""
        return Counter(turns[0].variants["tts"] for turns in self.held.values())


def hold(address: str, name: str, conversations: int, turns: int = 2) -> Talks:
    """Hold so many conversations, and keep all that is said in them."""
    wanted = [f"{name}-{number}" for number in range(1, conversations + 1)]
    with in_background(talking(address, name, turns, keep_clips=True)) as load:
        while True:
            held = by_conversation(load.ended)
            if all(len(held.get(each, ())) >= turns for each in wanted):
                break
            load.wait_for(1)
    return Talks(load.ended, {each: held[each] for each in wanted})


def trained_ear(address: str) -> Ear:
    """Return an ear that has heard each voice say a reply to each message."""

    def say(voice: str, text: str) -> Recording:
        with Client(address) as client:
            header = pb.RespondHeader(text=text, identity=IDENTITY, output=pb.OUTPUT_AUDIO)
            events = [timed.event for timed in client.respond(header, variants={"tts": voice})]
        chunks = [event.audio for event in events if event.WhichOneof("event") == "audio"]
        return from_pcm(b"".join(chunk.samples for chunk in chunks), chunks[0].sample_rate_hz)

    with ThreadPoolExecutor(4) as pool:
        known = {voice: [pool.submit(say, voice, message.text) for message in TEXTS] for voice in VOICES}
        heard = {voice: [each.result() for each in saying] for voice, saying in known.items()}
    return Ear(SpeakerReader(SPEAKER), heard)


def kept(address: str, conversation: str) -> list[tuple[memory.Turn, Recording]]:
    """Return the turns that were kept of a conversation, with their speech."""
    with Client(address) as client:
        return [
            (turn, from_wav(b"".join(client.turns.clip(IDENTITY, conversation, turn.id, memory.CLIP_KIND_SPEECH))))
            for turn in client.turns.all(IDENTITY, conversation)
        ]


def check_split(address: str, name: str, conversations: int, weights: Mapping[str, float]) -> None:
    """Hold conversations; check who spoke in them, by what the turns say, by what is kept and by listening."""
    ear = trained_ear(address)
    talks = hold(address, name, conversations)
    margins = []
    for conversation, turns in talks.held.items():
        served = {turn.kept_as: turn.variants["tts"] for turn in turns}
        for turn, recording in kept(address, conversation):
            voice, likeness = turn.variants["tts"], ear.likeness(recording)
            # An earlier run may have talked in the same conversation.
            assert served.get(turn.id, voice) == voice
            assert turn.models["tts"].startswith(BACKENDS[voice])
            margins.append(likeness.pop(voice) - max(likeness.values()))
    probability = chance(talks.split, weights)
    told = f"{len(talks.made)} turns, {len(talks.held)} conversations: {dict(talks.split)}, p {probability:.3f}"
    print(f"\n{told}; {len(margins)} clips, likeness to their own voice {min(margins):.3f} higher or more")
    assert not failed(talks.made), failed(talks.made)
    assert not losses(talks.made), losses(talks.made)
    assert not talks.broken, talks.broken
    assert set(talks.split) == set(weights)
    assert probability > PROBABILITY_MIN
    assert len(margins) >= sum(len(turns) for turns in talks.held.values())
    assert min(margins) > 0
