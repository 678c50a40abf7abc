"""A memory with archives, and an identity that has all that one can have."""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace

from services.common.tar import Member
from services.memory.archive.archive import Archive
from services.memory.domain import Change, ClipKind, Exemplar, Generator
from services.memory.registry.emotion_references import EmotionReferences
from services.memory.registry.exemplars import Exemplars
from services.memory.vectors.embedding import Embedding
from tests.fake_store import FakeStore
from tests.talking import MP4, TENANT, WAV, Clock, Replica, turn

MODEL = "a" * 64
OTHER = "elsewhere"
PORTRAIT = b"\x89PNG\r\n\x1a\n" + b"another" * 100


class House:
    """A memory with archives."""

    def __init__(self, store: FakeStore | None = None) -> None:
        self.store = store or FakeStore()
        self.memory = Replica(self.store, Clock())
        memory = self.memory
        self.exemplars = Exemplars(
            self.store, memory.registry, memory.vectors, Embedding(memory.embedder), memory.clock
        )
        self.archive = Archive(self.store, memory.registry, memory.persons, memory.talks, self.exemplars, memory.clock)

    def fill(self) -> None:
        """Ada, with all that an identity can have."""
        memory, registry = self.memory, self.memory.registry
        memory.add()
        profile = replace(registry.identity(TENANT, "ada").profile, about="She keeps archives.")
        registry.change(TENANT, "ada", Change(1, profile=profile))
        portrait, voice = (reference.digest for reference in registry.identity(TENANT, "ada").references)
        registry.keep_derived(TENANT, "ada", [portrait], MODEL, b"rig")
        registry.keep_derived(TENANT, "ada", [voice], MODEL, b"voice")
        emotions = EmotionReferences(self.store, registry)
        emotions.put(TENANT, "ada", Generator.VOICE, "cheerful", "audio/wav", WAV)
        self.exemplars.put(TENANT, "ada", [Exemplar(f"I lost my {what}", "sad", "Oh no.") for what in ("cat", "key")])
        for number, (person, conversation) in enumerate([("ann", "talk"), ("ann", "walk"), ("bob", "talk"), ("", "x")]):
            for each in range(3):
                memory.clock.now_s += 60
                said = replace(turn(each), vote_record="00ff", variants={"tts": "b"}, timings_s={"vote": 0.5})
                memory.say(said, conversation, person)
            kind, content = [(ClipKind.SPEECH, WAV), (ClipKind.VIDEO, MP4)][number % 2]
            memory.talks.put_clip(TENANT, "ada", person, conversation, "turn-1", kind, content + bytes([number]))

    def content(self, tenant: str = TENANT, identity: str = "ada") -> object:
        """All that can be read of an identity, but what an import makes anew."""
        talks, registry = self.memory.talks, self.memory.registry
        found = registry.identity(tenant, identity)
        people = [("ann", "talk"), ("ann", "walk"), ("bob", "talk"), ("", "x")]
        return (
            [
                replace(registry.identity(tenant, identity, version), id="", generation="")
                for version in range(1, found.version + 1)
            ],
            [registry.reference(tenant, identity, reference.digest) for reference in found.references],
            EmotionReferences(self.store, registry).get(tenant, identity, Generator.VOICE, "cheerful"),
            [replace(each, id="") for each in self.exemplars.list(tenant, identity, 10, "")[0]],
            [talks.turns(tenant, identity, person, talk, 50, "") for person, talk in people],
            [
                talks.clip(tenant, identity, person, talk, "turn-1", kind)
                for (person, talk), kind in zip(people, [ClipKind.SPEECH, ClipKind.VIDEO] * 2, strict=True)
            ],
        )

    def exported(self) -> bytes:
        return b"".join(self.archive.export(TENANT, "ada"))

    def imported(self, archive: bytes, tenant: str = OTHER, identity: str = "") -> None:
        self.archive.import_(tenant, identity, pieces(archive))


def pieces(archive: bytes, size: int = 1000) -> Iterator[bytes]:
    return (archive[start : start + size] for start in range(0, len(archive), size))


def members(archive: bytes) -> list[Member]:
    """As another program reads them."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [
            Member(info.name, tar.extractfile(info).read(), info.pax_headers.get("E3RG.media_type", ""))  # type: ignore[union-attr]
            for info in tar
        ]
