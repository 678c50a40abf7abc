"""Tells a person how a panel came to its decision."""

from collections.abc import Iterator

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as understanding

_FATES = {
    understanding.VOTE_STATUS_VOTED: "voted",
    understanding.VOTE_STATUS_ABSTAINED: "abstained",
    understanding.VOTE_STATUS_LATE: "was late",
    understanding.VOTE_STATUS_FAILED: "failed",
    understanding.VOTE_STATUS_CANCELLED: "was called off",
}
_SENSES = {common.MODALITY_TEXT: "text", common.MODALITY_AUDIO: "audio", common.MODALITY_VIDEO: "video"}
DIGEST_CHARS = 8
"""Of a model's digest, enough to tell two versions apart at a glance; `reply.json` has all of it."""


def vote_lines(record: understanding.VoteRecord) -> Iterator[str]:
    """Yields a line per voter, then the decision, then what would have been decided without each voter."""
    for vote in record.votes:
        if vote.status == understanding.VOTE_STATUS_VOTED:
            line = f"vote       {vote.voter:8} {_opinion(vote.prediction):46} {vote.latency_s:5.2f} s  {_source(vote)}"
            yield f"{line}; not counted: {vote.reason}" if vote.reason else line
        else:
            yield f"vote       {vote.voter:8} {_FATES[vote.status]}: {vote.reason}"
    tally = ", ".join(f"{name} {count:.3g}" for name, count in sorted(record.tally.items(), key=lambda item: -item[1]))
    rule = f"{record.rule} (weights {record.weights_version})" if record.weights_version else record.rule
    yield f"emotion    {record.label}, by {rule}: {tally}; tie-break: {record.tie_break}"
    counted = sum(vote.status == understanding.VOTE_STATUS_VOTED and not vote.reason for vote in record.votes)
    yield (
        f"           margin {record.margin:.3g}, agreement {record.agreement:.0%} of {counted} counted,"
        f" entropy {record.entropy_bits:.2f} bits over classes{', decided early' if record.early else ''}"
    )
    if without := [f"{vote.voter}: {vote.label_without}" for vote in record.votes if vote.label_without]:
        yield f"without    {', '.join(without)}"


def vote_summary(record: understanding.VoteRecord) -> str:
    """The decision in one line: what each voter said, and by which rule they were counted."""
    votes = [
        f"{vote.voter} {vote.prediction.label or vote.prediction.face_class}{' (not counted)' if vote.reason else ''}"
        if vote.status == understanding.VOTE_STATUS_VOTED
        else f"{vote.voter} {_FATES.get(vote.status, 'unknown')}"
        for vote in record.votes
    ]
    return f"{record.label} by {record.rule}, margin {record.margin:.3g}: {', '.join(votes)}"


def _opinion(prediction: mllm.PredictEmotionResponse) -> str:
    """A vote at the level at which it was cast."""
    wheel = emotions.load()
    share = wheel.gather(prediction.distribution)[prediction.face_class]
    if prediction.level == mllm.LEVEL_CLASS:
        return f"{prediction.face_class} {share:.0%} (of {len(wheel.classes)} classes)"
    label = f"{prediction.label} {prediction.distribution[prediction.label]:.0%}"
    return f"{label} (of {len(wheel.labels)} labels; class {prediction.face_class} {share:.0%})"


def _source(vote: understanding.Vote) -> str:
    """Which model voted, what it perceived, and how its answer was obtained."""
    prediction, card = vote.prediction, vote.card
    facts = ["saw " + "+".join(_SENSES[sense] for sense in prediction.saw), prediction.parse]
    facts += [f"prompt {card.prompt_version}"] if card.prompt_version else []
    facts += ["shown " + " ".join(shot.id for shot in prediction.shots)] if prediction.shots else []
    facts += [f"{prediction.history_dropped} earlier turns unread"] if prediction.history_dropped else []
    return f"{card.model} {card.digest[:DIGEST_CHARS]} ({', '.join(facts)})"
