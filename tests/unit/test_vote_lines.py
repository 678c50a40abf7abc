from client.votes import vote_lines, vote_summary
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as understanding

PROMPTED = understanding.Vote(
    voter="qwen",
    status=understanding.VOTE_STATUS_VOTED,
    prediction=mllm.PredictEmotionResponse(
        distribution={"lonely": 0.6, "sad": 0.3, "happy": 0.1},
        label="lonely",
        face_class="sad",
        level=mllm.LEVEL_LABEL,
        saw=[common.MODALITY_TEXT, common.MODALITY_VIDEO],
        parse="scored",
        shots=[mllm.Shot(id="lonely/3", label="lonely", similarity=0.5)],
        history_dropped=160,
    ),
    card=common.ModelCard(model="Qwen2.5-Omni-7B", digest="0123456789abcdef", prompt_version="emotion-1"),
    latency_s=0.4,
    weight=1.5,
    label_without="sad",
)
FACE = understanding.Vote(
    voter="face",
    status=understanding.VOTE_STATUS_VOTED,
    prediction=mllm.PredictEmotionResponse(
        distribution={"sad": 0.7, "neutral": 0.3},
        label="sad",
        face_class="sad",
        level=mllm.LEVEL_CLASS,
        saw=[common.MODALITY_VIDEO],
        parse="classified",
    ),
    card=common.ModelCard(model="landmarks", digest="fedcba9876543210"),
    latency_s=0.1,
    label_without="lonely",
)
SLOW = understanding.Vote(
    voter="ola", status=understanding.VOTE_STATUS_CANCELLED, reason="the result stood", latency_s=0.5
)


def test_a_decision_is_told_voter_by_voter_with_what_would_have_won_without_each() -> None:
    record = understanding.VoteRecord(
        label="lonely",
        face_class="sad",
        rule="weighted",
        weights_version="embedded-1",
        margin=2.25,
        tie_break="none",
        votes=[PROMPTED, FACE, SLOW],
        tally={"sad": 2.25},
        entropy_bits=0.4,
        agreement=1,
        early=True,
    )
    assert list(vote_lines(record)) == [
        "vote       qwen     lonely 60% (of 36 labels; class sad 90%)        0.40 s"
        "  Qwen2.5-Omni-7B 01234567 (saw text+video, scored, prompt emotion-1, shown lonely/3,"
        " 160 earlier turns unread)",
        "vote       face     sad 70% (of 8 classes)                          0.10 s"
        "  landmarks fedcba98 (saw video, classified)",
        "vote       ola      was called off: the result stood",
        "emotion    lonely, by weighted (weights embedded-1): sad 2.25; tie-break: none",
        "           margin 2.25, agreement 100% of 2 counted, entropy 0.40 bits over classes, decided early",
        "without    qwen: sad, face: lonely",
    ]


def test_a_decision_has_a_summary_of_one_line() -> None:
    record = understanding.VoteRecord(label="lonely", rule="weighted", margin=2.25, votes=[PROMPTED, FACE, SLOW])
    assert vote_summary(record) == "lonely by weighted, margin 2.25: qwen lonely, face sad, ola was called off"


def test_a_vote_on_probation_is_told_and_not_among_the_counted() -> None:
    doubted = understanding.Vote()
    doubted.CopyFrom(FACE)
    doubted.reason = "on probation: it is new to the panel"
    record = understanding.VoteRecord(label="lonely", rule="majority", margin=1, agreement=1, votes=[PROMPTED, doubted])
    lines = list(vote_lines(record))
    assert lines[1].endswith("(saw video, classified); not counted: on probation: it is new to the panel")
    assert "agreement 100% of 1 counted" in lines[3]
    assert vote_summary(record) == "lonely by majority, margin 1: qwen lonely, face sad (not counted)"
