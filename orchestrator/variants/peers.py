"""Counts of the turns of all gateways: one of them asks the others for theirs."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from e3rg.gateway.v1 import gateway_pb2 as pb
from e3rg.gateway.v1 import gateway_pb2_grpc
from orchestrator.variants.counts import ByVariant, Counts, Ledger, Span, summed
from services.common import clients, targets
from services.common.errors import ServiceError
from services.common.tls import TlsFiles

if TYPE_CHECKING:
    from e3rg.gateway.v1.gateway_pb2_grpc import GatewayServiceAsyncStub

log = logging.getLogger(__name__)

TIMEOUT_S = 3.0
"""One that does not answer in time is left out this time: its turns are missed, and no others."""


class Peers:
    """The gateways of one deployment.

    Args:
        ledger: Counts of this gateway.
        gateway: Id of this gateway, by which it knows its own answer.
        target: Name that lists all gateways; empty for this one alone.
        tls: Files for TLS; None for plaintext.

    Raises:
        OSError, ValueError: A file of TLS cannot be used.
    """

    def __init__(self, ledger: Ledger, gateway: str, target: str = "", tls: TlsFiles | None = None) -> None:
        self._ledger, self._gateway, self._target = ledger, gateway, target
        self._connect, self._reread = clients.connector(target, tls)
        self._away: set[str] = set()

    async def counts(self, spans: Sequence[Span]) -> Mapping[Span, ByVariant]:
        """Return the counts of all gateways that answer, this one's included."""
        self._reread()  # A certificate that was rotated counts for the next connection.
        addresses = await self._addresses()
        answers = await asyncio.gather(*(self._ask(address, spans) for address in addresses))
        told = {answer.gateway: answer for answer in answers if answer and answer.gateway != self._gateway}
        for address, answer in zip(addresses, answers, strict=True):
            self._note(address, is_away=answer is None)
        return {
            span: summed([self._ledger.counts(span), *(_counts(answer.spans[index]) for answer in told.values())])
            for index, span in enumerate(spans)
        }

    async def _addresses(self) -> list[str]:
        if not self._target:
            return []
        try:
            addresses = await targets.listed_by(self._target)
        except OSError as error:
            log.warning("the gateways cannot be looked up", extra={"why": str(error)})
            return []
        self._away &= {*addresses}
        return addresses

    async def _ask(self, address: str, spans: Sequence[Span]) -> pb.GetVariantCountsResponse | None:
        """Return the counts of one gateway; None where it does not answer. A connection a time is cheap enough."""
        request = pb.GetVariantCountsRequest(
            spans=[pb.Span(stage=span.stage, begin_s=span.begin_s, end_s=span.end_s) for span in spans]
        )
        async with self._connect(address) as channel:
            stub = cast("GatewayServiceAsyncStub", gateway_pb2_grpc.GatewayServiceStub(channel))
            try:
                async with clients.calling(address):
                    answer = await stub.GetVariantCounts(request, **clients.options(TIMEOUT_S))
            except ServiceError:
                return None
        return answer if len(answer.spans) == len(spans) else None

    def _note(self, address: str, is_away: bool) -> None:
        if is_away and address not in self._away:
            log.warning("a gateway does not tell its counts; its turns are not judged", extra={"gateway": address})
        (self._away.add if is_away else self._away.discard)(address)


def message(counts: ByVariant) -> pb.SpanCounts:
    """Return the counts of a span as a message."""
    return pb.SpanCounts(
        variants=[
            pb.VariantCounts(
                variant=variant,
                turns=each.turns,
                failed=each.failed,
                degraded=each.degraded,
                latencies=dict(each.latencies),
            )
            for variant, each in counts.items()
        ]
    )


def _counts(told: pb.SpanCounts) -> ByVariant:
    return {
        each.variant: Counts(each.turns, each.failed, each.degraded, Counter(dict(each.latencies)))
        for each in told.variants
    }
