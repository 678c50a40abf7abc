"""Identities, their banks and references, and what was erased: between the wire and the domain."""

from collections.abc import Iterable, Sequence

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2, identities_pb2
from services.common.errors import InvalidRequest
from services.memory.checks import check_digest
from services.memory.domain import (
    Audit,
    EmotionBank,
    EmotionReference,
    File,
    Generator,
    Grant,
    Identity,
    Profile,
    ReferenceKind,
    Retention,
)
from services.memory.wire.uploads import Declared

_KINDS = {
    identities_pb2.REFERENCE_KIND_PORTRAIT: ReferenceKind.PORTRAIT,
    identities_pb2.REFERENCE_KIND_VOICE: ReferenceKind.VOICE,
    identities_pb2.REFERENCE_KIND_FILM: ReferenceKind.FILM,
}
_KINDS_SENT = {kind: sent for sent, kind in _KINDS.items()}
_GENERATORS = {
    identities_pb2.GENERATOR_VOICE: Generator.VOICE,
    identities_pb2.GENERATOR_FACE: Generator.FACE,
}
_GENERATORS_SENT = {generator: sent for sent, generator in _GENERATORS.items()}


def generator_of(field: str, generator: identities_pb2.Generator) -> Generator:
    """Returns which generator is meant.

    Raises:
        InvalidRequest: None is.
    """
    if generator not in _GENERATORS:
        raise InvalidRequest(field, f"{generator} is no generator; use GENERATOR_VOICE or GENERATOR_FACE")
    return _GENERATORS[generator]


def declared_of(
    field: str, references: Sequence[identities_pb2.NewReference]
) -> tuple[list[ReferenceKind], list[Declared]]:
    """Returns kinds and sizes of the files that are to come.

    Raises:
        InvalidRequest: One has no kind, or a digest that is none.
    """
    kinds, declared = [], []
    for index, reference in enumerate(references):
        place = f"{field}[{index}]"
        if reference.kind not in _KINDS:
            known = ", ".join(identities_pb2.ReferenceKind.Name(kind) for kind in _KINDS)
            raise InvalidRequest(f"{place}.kind", f"{reference.kind} is no kind of file; use one of: {known}")
        if reference.digest:
            check_digest(f"{place}.digest", reference.digest)
        kinds.append(_KINDS[reference.kind])
        declared.append(Declared(place, reference.size_bytes, reference.digest))
    return kinds, declared


def sizes_of(kinds: Iterable[ReferenceKind], declared: Iterable[Declared]) -> list[tuple[ReferenceKind, int]]:
    """Returns what is to be checked of files before they are read."""
    return [(kind, file.size_bytes) for kind, file in zip(kinds, declared, strict=True)]


def files_of(kinds: Iterable[ReferenceKind], contents: Iterable[bytes]) -> tuple[File, ...]:
    """Returns the files that came."""
    return tuple(File(kind, content) for kind, content in zip(kinds, contents, strict=True))


def profile_of(profile: common.Profile) -> Profile:
    """Returns a profile that came."""
    return Profile(
        name=profile.name,
        age=profile.age,
        gender=profile.gender,
        timbre=profile.timbre,
        language=profile.language,
        about=profile.about,
        speaking_style=profile.speaking_style,
    )


def grants_of(grants: Iterable[identities_pb2.Grant]) -> tuple[Grant, ...]:
    """Returns permissions that came."""
    return tuple(Grant(grant.use, grant.granted_by, grant.granted_on, grant.purpose, grant.until) for grant in grants)


def bank_of(bank: identities_pb2.EmotionBank) -> EmotionBank:
    """Returns a bank that came."""
    return EmotionBank(bank.name, tuple(bank.face_classes), tuple(bank.voice_styles))


def sent_identity(identity: Identity) -> identities_pb2.Identity:
    """Returns an identity as it is sent."""
    profile = identity.profile
    return identities_pb2.Identity(
        id=identity.id,
        profile=common.Profile(
            name=profile.name,
            age=profile.age,
            gender=profile.gender,
            timbre=profile.timbre,
            language=profile.language,
            about=profile.about,
            speaking_style=profile.speaking_style,
        ),
        references=[
            identities_pb2.Reference(
                digest=reference.digest, size_bytes=reference.size_bytes, kind=_KINDS_SENT[reference.kind]
            )
            for reference in identity.references
        ],
        grants=[
            identities_pb2.Grant(
                use=grant.use,
                granted_by=grant.granted_by,
                granted_on=grant.granted_on,
                purpose=grant.purpose,
                until=grant.until,
            )
            for grant in identity.grants
        ],
        emotion_bank=identity.emotion_bank,
        version=identity.version,
        changed_at_s=identity.changed_at_s,
        generation=identity.generation,
    )


def sent_bank(bank: EmotionBank) -> identities_pb2.EmotionBank:
    """Returns a bank as it is sent."""
    return identities_pb2.EmotionBank(name=bank.name, face_classes=bank.face_classes, voice_styles=bank.voice_styles)


def sent_emotion_reference(reference: EmotionReference) -> identities_pb2.EmotionReference:
    """Returns an emotional reference as it is sent."""
    return identities_pb2.EmotionReference(
        generator=_GENERATORS_SENT[reference.generator],
        name=reference.name,
        digest=reference.digest,
        size_bytes=reference.size_bytes,
        media_type=reference.media_type,
        own=reference.own,
    )


def retention_of(retention: erasure_pb2.Retention) -> Retention:
    """Returns a retention that came."""
    return Retention(
        turns_days=retention.turns_days,
        clips_days=retention.clips_days,
        derived_days=retention.derived_days,
        audits_days=retention.audits_days,
    )


def sent_retention(retention: Retention) -> erasure_pb2.Retention:
    """Returns a retention as it is sent."""
    return erasure_pb2.Retention(
        turns_days=retention.turns_days,
        clips_days=retention.clips_days,
        derived_days=retention.derived_days,
        audits_days=retention.audits_days,
    )


def sent_audit(audit: Audit) -> erasure_pb2.Audit:
    """Returns the record of an erasure as it is sent."""
    return erasure_pb2.Audit(
        id=audit.id,
        what=audit.what,
        asked_by=audit.asked_by,
        begun_at_s=audit.begun_at_s,
        done_at_s=audit.done_at_s,
        counts=[
            erasure_pb2.ErasedCount(kind=count.kind, objects=count.objects, size_bytes=count.size_bytes)
            for count in audit.counts
        ],
        caches_gone_by_s=audit.caches_gone_by_s,
    )
