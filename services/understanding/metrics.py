"""Metrics of the panel: how sure it is, whom it waits for, and whose vote makes a difference."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import Counter, Gauge, Histogram

from services.common.metrics import BUCKETS_S
from services.understanding.domain import Decision, Reliability, Standing, Status, Vote
from services.understanding.domain import Source as VoteSource
from services.understanding.risk.domain import Kind, Severity, Source

DECISIONS = Counter(
    "e3rg_panel_decisions_total",
    "Decisions; early ones did not wait for all votes.",
    ["rule", "early", "tie_break"],
)
AGREEMENT = Histogram(
    "e3rg_panel_agreement",
    "Share of the counted votes that chose the winning class.",
    ["rule"],
    buckets=(0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1),
)
MARGIN = Histogram(
    "e3rg_panel_margin",
    "Tally of the winning class minus that of the next, in the rule's unit.",
    ["rule"],
    buckets=(0, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 3, 4, 5, 7, 10),
)
ENTROPY_BITS = Histogram(
    "e3rg_panel_entropy_bits",
    "Entropy of the panel's distribution over the classes.",
    ["rule"],
    buckets=(0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3),
)
VOTES = Counter("e3rg_panel_votes_total", "Votes by what became of them.", ["voter", "variant", "status"])
VOTE_SECONDS = Histogram(
    "e3rg_panel_vote_seconds",
    "Seconds from question to answer, or to giving up.",
    ["voter", "variant", "status"],
    buckets=BUCKETS_S,
)
LATENESS_SECONDS = Histogram(
    "e3rg_panel_lateness_seconds",
    "Seconds from the panel's first answer to this voter's, or to giving it up: at least so late is who was given up.",
    ["voter", "variant", "status"],
    buckets=BUCKETS_S,
)
PIVOTAL = Counter(
    "e3rg_panel_pivotal_total",
    "Decisions whose label would have been another without this voter.",
    ["voter", "variant"],
)
VOTER_AGREEMENT = Gauge(
    "e3rg_panel_voter_agreement",
    "Cohen's kappa of this voter with the decision of the other counted voters.",
    ["voter", "variant"],
)
VOTER_ABSTAINED = Gauge(
    "e3rg_panel_voter_abstained_share", "Share of the last messages on which it abstained.", ["voter", "variant"]
)
VOTER_LATE = Gauge(
    "e3rg_panel_voter_late_share", "Share of the last messages on which it was late or failed.", ["voter", "variant"]
)
VOTER_MESSAGES = Gauge("e3rg_panel_voter_messages", "Messages in its track record.", ["voter", "variant"])
VOTER_STANDING = Gauge(
    "e3rg_panel_voter_standing", "1 for the standing that the voter has, else 0.", ["voter", "variant", "standing"]
)

RISKS = Counter(
    "e3rg_risks_raised_total",
    "Messages that raised a risk, also those that turned out to be none.",
    ["kind", "severity", "source"],
)
SCREEN_SECONDS = Histogram(
    "e3rg_risk_screen_seconds",
    "Seconds of the risk screen for a message, waiting included.",
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5),
)
for _kind in Kind:
    for _severity in Severity:
        for _source in Source:
            RISKS.labels(_kind, _severity.name.lower(), _source)  # A rate needs the 0 before the first.


def show_voters(variants: Iterable[tuple[str, str]]) -> None:
    """Tell of each voter's variant that it has not voted yet: a rate needs the 0 before the first."""
    for voter, variant in variants:
        for status in Status:
            VOTES.labels(voter, variant, status)


def observe_votes(votes: Sequence[Vote[VoteSource]], answered_s: Mapping[str, float]) -> None:
    """Counts what became of the voters.

    Args:
        votes: One of each voter.
        answered_s: When each of those that answered did, in seconds on the clock by which the others were given up.
    """
    first_s = min(answered_s.values(), default=None)
    for vote in votes:
        VOTES.labels(vote.voter, vote.variant, vote.status).inc()
        VOTE_SECONDS.labels(vote.voter, vote.variant, vote.status).observe(vote.latency_s)
        if first_s is not None and vote.status is not Status.FAILED:
            late_s = answered_s.get(vote.voter, vote.latency_s) - first_s
            LATENESS_SECONDS.labels(vote.voter, vote.variant, vote.status).observe(max(0.0, late_s))


def observe_decision(decision: Decision[VoteSource]) -> None:
    """Counts a decision."""
    DECISIONS.labels(decision.rule, str(decision.early).lower(), decision.tie_break).inc()
    AGREEMENT.labels(decision.rule).observe(decision.agreement)
    MARGIN.labels(decision.rule).observe(decision.margin)
    ENTROPY_BITS.labels(decision.rule).observe(decision.entropy_bits)
    for vote in decision.votes:
        if vote.label_without not in ("", decision.label):
            PIVOTAL.labels(vote.voter, vote.variant).inc()


def observe_reliability(voter: str, variant: str, reliability: Reliability) -> None:
    """Shows a voter's track record."""
    if reliability.agreement is not None:
        VOTER_AGREEMENT.labels(voter, variant).set(reliability.agreement)
    VOTER_ABSTAINED.labels(voter, variant).set(reliability.abstained)
    VOTER_LATE.labels(voter, variant).set(reliability.late)
    VOTER_MESSAGES.labels(voter, variant).set(reliability.messages)
    for standing in Standing:
        VOTER_STANDING.labels(voter, variant, standing).set(standing is reliability.standing)


def forget_reliability(voter: str, variant: str) -> None:
    """Takes the track record of a voter off the page."""
    for gauge in (VOTER_AGREEMENT, VOTER_ABSTAINED, VOTER_LATE, VOTER_MESSAGES):
        gauge.remove(voter, variant)
    for standing in Standing:
        VOTER_STANDING.remove(voter, variant, standing)
