"""Turns, clips, examples and how a conversation felt: between the wire and the domain."""

from e3rg.memory.v1 import exemplars_pb2, memory_pb2
from services.common.errors import InvalidRequest
from services.memory.domain import Clip, ClipKind, Exemplar, Hit, Sought, Trajectory, Turn

HITS_DEFAULT = 4
"""Hits that are sent when the caller does not say how many."""

_KINDS = {memory_pb2.CLIP_KIND_SPEECH: ClipKind.SPEECH, memory_pb2.CLIP_KIND_VIDEO: ClipKind.VIDEO}
_KINDS_SENT = {kind: sent for sent, kind in _KINDS.items()}


def kind_of(field: str, kind: memory_pb2.ClipKind) -> ClipKind:
    """Returns which clip is meant.

    Raises:
        InvalidRequest: None is.
    """
    if kind not in _KINDS:
        raise InvalidRequest(field, f"{kind} is no kind of clip; use CLIP_KIND_SPEECH or CLIP_KIND_VIDEO")
    return _KINDS[kind]


def turn_of(turn: memory_pb2.Turn) -> Turn:
    """Returns a turn that came, without what the memory fills in."""
    return Turn(
        id=turn.id,
        user_text=turn.user_text,
        user_emotion=turn.user_emotion,
        reply_text=turn.reply_text,
        reply_emotion=turn.reply_emotion,
        user_intensity=turn.user_intensity,
        vote_record=turn.vote_record.hex(),
        variants=dict(turn.variants),
        timings_s=dict(turn.timings_s),
    )


def sought_of(request: memory_pb2.SearchRequest) -> Sought:
    """Returns what is looked for."""
    return Sought(
        text=request.text,
        hits_max=request.hits_max if request.HasField("hits_max") else HITS_DEFAULT,
        similarity_min=request.similarity_min,
        age_max_s=request.age_max_s,
        user_emotions=frozenset(request.user_emotions),
        without=frozenset(request.without),
        here=request.here,
    )


def sent_clip(clip: Clip) -> memory_pb2.Clip:
    """Returns a clip as it is sent."""
    return memory_pb2.Clip(kind=_KINDS_SENT[clip.kind], digest=clip.digest, size_bytes=clip.size_bytes)


def sent_turn(turn: Turn) -> memory_pb2.Turn:
    """Returns a turn as it is sent."""
    return memory_pb2.Turn(
        id=turn.id,
        user_text=turn.user_text,
        user_emotion=turn.user_emotion,
        reply_text=turn.reply_text,
        reply_emotion=turn.reply_emotion,
        user_intensity=turn.user_intensity,
        vote_record=bytes.fromhex(turn.vote_record),
        variants=turn.variants,
        timings_s=turn.timings_s,
        said_at_s=turn.said_at_s,
        clips=[sent_clip(clip) for clip in turn.clips],
        conversation=turn.conversation,
    )


def sent_hit(hit: Hit) -> memory_pb2.Hit:
    """Returns a turn that was found as it is sent."""
    return memory_pb2.Hit(turn=sent_turn(hit.turn), similarity=hit.similarity, turns_ago=hit.turns_ago)


def sent_trajectory(trajectory: Trajectory) -> memory_pb2.Trajectory:
    """Returns how a conversation felt as it is sent."""
    return memory_pb2.Trajectory(
        label=trajectory.label,
        weights=trajectory.weights,
        valence=trajectory.valence,
        arousal=trajectory.arousal,
        valence_change=trajectory.valence_change,
        half_life_s=trajectory.half_life_s,
    )


def exemplar_of(exemplar: exemplars_pb2.Exemplar) -> Exemplar:
    """Returns an example that came, without its id."""
    return Exemplar(exemplar.user_text, exemplar.user_emotion, exemplar.reply_text)


def sent_exemplar(exemplar: Exemplar) -> exemplars_pb2.Exemplar:
    """Returns an example as it is sent."""
    return exemplars_pb2.Exemplar(
        id=exemplar.id,
        user_text=exemplar.user_text,
        user_emotion=exemplar.user_emotion,
        reply_text=exemplar.reply_text,
    )
