"""Archives of identities, as a program that knows the format writes and reads them."""

import io
import tarfile
from collections.abc import Iterable
from typing import Any

from e3rg.common.v1 import common_pb2
from e3rg.memory.v1 import exemplars_pb2, memory_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from services.common.tar import END, Member, packed
from tests.support.conversations import remember
from tests.support.identities import change_of, digest_of, emotion, exported, file, get, put_derived, put_emotion
from tests.support.memory import FILM, MP4, PORTRAIT, TENANT, VOICE, WAV, Stubs, grants, header, joined, parts

OTHER = "other"
FACE = PORTRAIT[:2000]
"""A portrait that Ada had before."""
TALKS = [("ann", "talk"), ("ann", "walk"), ("bob", "talk"), ("", "x")]
RISKS = [common_pb2.RISK_KIND_MEDICAL, common_pb2.RISK_KIND_CHILD]
KINDS = {memory_pb2.CLIP_KIND_SPEECH: WAV, memory_pb2.CLIP_KIND_VIDEO: MP4}


def archive_of(members: Iterable[Member]) -> bytes:
    """Return an archive with these members."""
    return b"".join(piece for member in members for piece in packed(member)) + END


def members(archive: bytes) -> list[Member]:
    """Return the members of an archive, read by another program."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [
            Member(info.name, tar.extractfile(info).read(), info.pax_headers.get("E3RG.media_type", ""))  # type: ignore[union-attr]
            for info in tar
        ]


async def filled(stubs: Stubs) -> bytes:
    """Add Ada with everything that an identity can have, at version 5; return her archive."""
    await stubs.add(parts(header(), FACE, VOICE))
    bank = pb.EmotionBank(name="calm", face_classes=["neutral"], voice_styles=["default"])
    for tenant in (TENANT, OTHER):
        await stubs.identities.PutEmotionBank(pb.PutEmotionBankRequest(tenant=tenant, bank=bank))
    await stubs.change(change_of(1, [], emotion_bank="calm"))
    await stubs.change(change_of(2, removed=[digest_of(FACE)]), FACE + b"!", FILM)
    await stubs.change(change_of(3, grants(), emotion_bank="default"))
    profile = header().profile
    profile.about = "She keeps archives."
    await stubs.change(change_of(4, profile=profile))
    await put_derived(stubs, b"a fitted voice")
    await put_emotion(stubs, WAV, identity="ada")
    await put_emotion(stubs, b"her face", identity="ada", generator=pb.GENERATOR_FACE, media_type="image/png")
    cases = [
        exemplars_pb2.Exemplar(user_text=f"my {it}", user_emotion="sad", reply_text="Oh.") for it in ("cat", "key")
    ]
    await stubs.exemplars.PutExemplars(
        exemplars_pb2.PutExemplarsRequest(tenant=TENANT, identity="ada", exemplars=cases)
    )
    for place, (person, conversation) in enumerate(TALKS):
        for number in range(3):
            tried: dict[str, Any] = (
                {"experiment": "voice-2", "phase": number, "degraded": ["video: the video"]} if number else {}
            )
            await remember(stubs, number, where={"person": person, "conversation": conversation}, **tried)
        kind, content = list(KINDS.items())[place % 2]
        await stubs.put_clip(kind, content + bytes([place]), person=person, conversation=conversation)
        for risk in RISKS[: place % 3]:
            await raise_risk(stubs, f"risk-{risk}", risk, person=person, conversation=conversation)
    return await exported(stubs)


async def raise_risk(stubs: Stubs, id_: str, kind: common_pb2.RiskKind, **where: str) -> None:
    """Keep a medium risk with a conversation of Ada."""
    place: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "conversation": "talk", **where}
    severity = common_pb2.RISK_SEVERITY_MEDIUM
    await stubs.memory.RaiseRisk(memory_pb2.RaiseRiskRequest(**place, id=id_, kind=kind, severity=severity))


async def raised(stubs: Stubs, **where: str) -> list[tuple[int, int, float]]:
    """Return kind, severity and age of the risks of a conversation, the newest first."""
    place: dict[str, Any] = {"tenant": OTHER, "identity": "ada", "conversation": "talk", **where}
    risks = (await stubs.memory.Recall(memory_pb2.RecallRequest(**place))).risks
    return [(risk.kind, risk.severity, risk.age_s) for risk in risks]


async def content(stubs: Stubs, name: str = "ada", tenant: str = TENANT) -> dict[str, Any]:
    """Return everything that can be read of an identity, but what an import makes anew."""
    now = await get(stubs, name, tenant=tenant)
    versions = [await get(stubs, name, version, tenant) for version in range(1, now.version + 1)]
    assert {version.generation for version in versions} == {now.generation}
    for version in versions:
        version.id = version.generation = ""
    place = {"tenant": tenant, "identity": name}
    examples = await stubs.exemplars.ListExemplars(exemplars_pb2.ListExemplarsRequest(**place))  # type: ignore[arg-type]
    said = list[memory_pb2.Turn]()
    clips = list[bytes]()
    risks = list[list[tuple[int, int]]]()
    for number, (person, conversation) in enumerate(TALKS):
        talk: dict[str, Any] = {**place, "person": person, "conversation": conversation}
        said += (await stubs.memory.ListTurns(memory_pb2.ListTurnsRequest(**talk))).turns
        here = await raised(stubs, tenant=tenant, identity=name, person=person, conversation=conversation)
        risks.append([risk[:2] for risk in here])  # They age.
        kind = list(KINDS)[number % 2]
        clips.append(await joined(stubs.memory.GetClip(memory_pb2.GetClipRequest(**talk, turn="turn-1", kind=kind))))
    return {
        "versions": versions,
        "files": [await file(stubs, reference.digest, name, tenant) for reference in now.references],
        "emotions": [await emotion(stubs, **place, generator=generator) for generator in (1, 2)],
        "examples": sorted((each.user_text, each.user_emotion, each.reply_text) for each in examples.exemplars),
        "turns": said,
        "clips": clips,
        "risks": risks,
    }
