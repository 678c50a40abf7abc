"""Replies: the panel's own to a risk, else the writer's, of which no sentence is passed on unchecked."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from services.common.errors import InvalidRequest
from services.understanding.languages import UNKNOWN, Languages
from services.understanding.reader import Reading
from services.understanding.risk.care import Care, asks_for_a_human, asks_for_a_line, takes_back
from services.understanding.risk.domain import Heeded, Kind, Severity
from services.understanding.risk.lines import check_country
from services.understanding.risk.messages import to_heeded
from services.understanding.screening import Screening
from services.understanding.spelling import spelled
from services.understanding.tones.offers import Offers
from services.understanding.tones.replies import first_sentence
from services.understanding.voters import MllmVoter

RISK, PROGRAM, HELP_LINE, LANGUAGE, UNSAFE = "risk", "program", "help_line", "language", "unsafe"
"""Reasons for a stored reply, in its record."""
INSTEAD = "I'm not sure how to answer that well. Would you tell me a little more?"
"""Said in place of a reply whose first sentence may not be said."""

ChooseWriter = Callable[[str, int], Coroutine[Any, Any, MllmVoter]]


class Replies:
    """Replies to messages.

    Args:
        choose: Returns the client of a variant of the writer, by the version of the table that it is from.
        screening: Checks what the writer writes.
        care: Stored replies to a risk.
        offers: Reads how a message sounds, and offers replies to it.
        languages: Replies to messages in other languages.
    """

    def __init__(
        self, choose: ChooseWriter, screening: Screening, care: Care, offers: Offers, languages: Languages
    ) -> None:
        self._choose, self._screening, self._care = choose, screening, care
        self._offers, self._languages = offers, languages

    async def write(self, request: pb.WriteReplyRequest) -> AsyncGenerator[pb.WriteReplyResponse]:
        """Yield the sentences of a reply, its record last.

        Raises:
            InvalidRequest: The text is empty, the country no code, or the risk incomplete.
            ServiceError: The writer cannot be reached, or failed.
        """
        check_country(request.country)
        heeded = to_heeded(request.risk, request.risk_is_new) if request.HasField("risk") else None
        order = request.reply
        order.text = spelled(order.text)
        reading = await self._offers.read(order)
        reason, reply = self._stored(request, heeded, reading)
        if not reason:
            writer = await self._choose(request.variant, request.variants_version)
            if not request.language or writer.writes(request.language):
                is_grave = bool(heeded and heeded.risk.severity is Severity.HIGH)
                async with aclosing(self._checked(writer, order, reading, is_grave)) as parts:
                    async for part in parts:
                        yield part
                return
            reason, reply = LANGUAGE, self._languages.reply(request.language)
        if not order.text.strip():
            raise InvalidRequest("text", "it is empty; send what the user said")
        for sentence in reply:
            yield pb.WriteReplyResponse(sentence=sentence)
        uses = [mllm.MemoryUse(unused=reason) for _ in order.memories]
        yield pb.WriteReplyResponse(record=mllm.ReplyRecord(degraded=reason, memories=uses))

    def _stored(
        self, request: pb.WriteReplyRequest, heeded: Heeded | None, reading: Reading
    ) -> tuple[str, Sequence[str]]:
        """Return the reason and the sentences of a reply that no writer may write; an empty reason for none."""
        order, language = request.reply, request.language
        said = [each.text for each in order.history if each.speaker == common.SPEAKER_AVATAR]
        kind = heeded.risk.kind if heeded else Kind.SUICIDE
        asks_for_line = asks_for_a_line(order.text) and not (heeded and heeded.is_new)
        if heeded and not asks_for_line and (self._care.is_due(heeded, said) or takes_back(order.text)):
            return RISK, self._cared(request, heeded, reading, said)
        if asks_for_a_human(order.text):
            return PROGRAM, self._care.of_a_program(said, order.text, order.seed)
        if asks_for_line:
            return HELP_LINE, self._care.of_a_line(kind, said, order.text, request.country, order.seed)
        if language == UNKNOWN:
            return LANGUAGE, self._languages.reply(language)
        return "", ()

    def _cared(
        self, request: pb.WriteReplyRequest, heeded: Heeded, reading: Reading, said: Sequence[str]
    ) -> Sequence[str]:
        """Return the sentences that answer a risk, or a message that goes on with one."""
        text, language, country, seed = request.reply.text, request.language, request.country, request.reply.seed
        if language and language not in self._care.others:
            return self._languages.reply(language)
        if not heeded.goes_on or language:
            return self._care.reply(heeded, text, said, country, seed, reading.fits, language)
        is_asked = asks_for_a_human(text)
        first = self._care.of_a_program(said, text, seed)[0] if is_asked else first_sentence(reading, said)
        return self._care.follow_up(heeded, first, text, said, country, seed)

    async def _checked(
        self, writer: MllmVoter, order: mllm.WriteReplyRequest, reading: Reading, is_grave: bool
    ) -> AsyncGenerator[pb.WriteReplyResponse]:
        """Yield what a writer writes, up to a sentence that may not be said."""
        told, withheld = await self._without_risks(order)
        offer = self._offers.offer(order, reading, is_grave)
        offer.fill(told)
        said = 0
        async with aclosing(writer.write_reply(told)) as parts:
            async for part in parts:
                card = part.card if part.HasField("card") else None
                if part.WhichOneof("part") != "sentence":
                    yield pb.WriteReplyResponse(record=offer.stamped(_with_withheld(part.record, withheld)), card=card)
                    continue
                if reason := await self._screening.unspeakable(part.sentence):
                    if not said:
                        yield pb.WriteReplyResponse(sentence=INSTEAD, card=card)
                    rejected = [f"{reason}: {part.sentence}"]
                    yield pb.WriteReplyResponse(record=mllm.ReplyRecord(degraded=UNSAFE, rejected=rejected))
                    return
                said += 1
                yield pb.WriteReplyResponse(sentence=part.sentence, card=card)

    async def _without_risks(self, order: mllm.WriteReplyRequest) -> tuple[mllm.WriteReplyRequest, list[bool]]:
        """Return a copy of an order without memories that speak of a risk, and which these are.

        No risk is brought up unasked.
        """
        withheld = [bool(await self._screening.find(memory.text)) for memory in order.memories]
        told = mllm.WriteReplyRequest()
        told.CopyFrom(order)
        del told.memories[:]
        told.memories.extend(
            each for each, is_withheld in zip(order.memories, withheld, strict=True) if not is_withheld
        )
        return told, withheld


def _with_withheld(record: mllm.ReplyRecord, withheld: list[bool]) -> mllm.ReplyRecord:
    """Return a record whose uses of memories are those of the whole order."""
    if not any(withheld):
        return record
    uses = iter(record.memories)
    whole = [mllm.MemoryUse(unused=RISK) if is_withheld else next(uses, mllm.MemoryUse()) for is_withheld in withheld]
    result = mllm.ReplyRecord()
    result.CopyFrom(record)
    del result.memories[:]
    result.memories.extend(whole)
    return result
