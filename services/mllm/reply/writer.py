"""Says a reply: what is remembered and the reply that was offered, or else the stored one that fits best."""

from collections.abc import Iterator
from dataclasses import replace

from emotions import Wheel
from services.mllm.domain import ReplyRecord, ReplyRequest, ReplySentence, check_order
from services.mllm.reply.exemplars import Embedder, Exemplars
from services.mllm.reply.gate import Gate, Situation, sentences
from services.mllm.reply.recall import ASKS_MEMORY, Recall, unused
from services.mllm.reply.restate import restated
from services.mllm.reply.small_talk import small_talk
from services.mllm.reply.stored import general_reply, passes, situation_of

SIMILARITY_MIN = 0.52
"""A stored reply to another message is used from this similarity of the two messages on; below it, a general one."""
SAME_LABEL_BONUS = 0.08
FITS = "a stored reply fits how the message sounds"
NONE_OFFERED = "no reply was offered, so the stored one that fits best is said"


class ReplyWriter:
    """Says stored replies."""

    def __init__(self, wheel: Wheel, embedder: Embedder, exemplars: Exemplars) -> None:
        self._wheel, self._embedder, self._exemplars = wheel, embedder, exemplars
        self._gate = Gate(exemplars.replies())
        self._recall = Recall(wheel, self._gate)

    def write(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        """Yields the reply's sentences, then its record.

        Raises:
            InvalidRequest: The message has no text, or an emotion is no label of the wheel.
        """
        check_order(request, self._wheel)
        return self._reply(request)

    def _reply(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        situation = situation_of(request, self._wheel)
        talk = "" if request.act else small_talk(request.message.text, situation.context, situation.name)
        if talk:
            replies = self._exemplars.general[talk]
            fresh = [reply for reply in replies if reply not in situation.earlier] or replies
            yield from map(ReplySentence, sentences(fresh[request.seed % len(fresh)]))
            reason = f"{talk}: the message holds no feeling, so a stored reply answers it"
            yield ReplyRecord("", 0, (reason,), memories=unused(request, talk))
            return
        recalled = self._recall.sentence(request, situation)
        if request.replies:
            own = self._example(request, situation)
            yield from map(ReplySentence, self._offered(request, own, recalled.sentence))
            yield ReplyRecord("", 0, (FITS,), 0, 0, recalled.uses, int(bool(own)))
            return
        if recalled.sentence:
            yield ReplySentence(recalled.sentence)
            situation = replace(situation, said=(recalled.sentence,))
        own = self._example(request, situation)
        yield from map(ReplySentence, own or self._stored(request, situation))
        yield ReplyRecord("", 0, (NONE_OFFERED,), 0, 0, recalled.uses, int(bool(own)))

    def _offered(self, request: ReplyRequest, own: tuple[str, ...], recalled: str) -> list[str]:
        """The sentences of an example of the identity's own, or of the first reply offered.

        What is remembered comes behind the first of several: "I'm sorry" is of what was said now; who asks for it gets
        nothing else, as the reply to any other question says that it cannot be told. Without either the reply may begin
        with the user's own words.
        """
        if recalled and ASKS_MEMORY.search(request.message.text.replace("\u2019", "'")):
            return [recalled]
        said = list(own or sentences(request.replies[0]))
        if recalled:
            said.insert(int(len(said) > 1), recalled)
        elif not own and (heard := restated(request, self._gate)):
            said.insert(0, heard)
        return said

    def _stored(self, request: ReplyRequest, situation: Situation) -> tuple[str, ...]:
        """The stored reply to a similar message if the gate lets it pass here, else a general one."""
        vector = self._embedder.embed([request.message.text])[0]
        matches = self._exemplars.nearest(vector, self._kin(request))
        matches.sort(
            key=lambda match: -match.similarity - SAME_LABEL_BONUS * (match.exemplar.label == request.user_emotion)
        )
        for match in matches[:8]:
            reply = sentences(match.exemplar.reply)
            if match.similarity >= SIMILARITY_MIN and passes(self._gate, reply, situation):
                return reply
        return general_reply(request, situation, self._exemplars, self._gate, self._wheel)

    def _example(self, request: ReplyRequest, situation: Situation) -> tuple[str, ...]:
        """The reply of the request's example that is near enough and passes the gate; empty when none is."""
        kin = self._kin(request)
        for example in request.examples:
            reply = sentences(example.reply_text)
            near = example.similarity >= SIMILARITY_MIN and example.user_emotion in kin
            if near and passes(self._gate, reply, situation):
                return reply
        return ()

    def _kin(self, request: ReplyRequest) -> list[str]:
        coarse = self._wheel.label(request.user_emotion).coarse
        return [one.name for one in self._wheel.labels.values() if one.coarse == coarse]
