"""Writes a reply: sentence by sentence, several candidates for each, the best that passes the gate is said."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from emotions import Wheel
from services.mllm.domain import ReplyRecord, ReplyRequest, ReplySentence, check_order
from services.mllm.language.model import Candidate, LanguageModel, Sampling
from services.mllm.reply.exemplars import Embedder, Exemplars
from services.mllm.reply.gate import Gate, Situation, sentences, words
from services.mllm.reply.prompt import HISTORY_TURNS_MAX, ReplyPrompt
from services.mllm.reply.rank import rank
from services.mllm.reply.recall import Recall, unused
from services.mllm.reply.restate import restated
from services.mllm.reply.small_talk import small_talk
from services.mllm.reply.stored import general_reply, passes, situation_of

DEGRADED = "exemplar"
SIMILARITY_MIN = 0.52
"""A stored reply to another message is used from this similarity of the two messages on; below it, a general one."""
SAME_LABEL_BONUS = 0.08
FIRST_FIT_MIN, NEXT_FIT_MIN = 0.46, 0.43
"""A sentence farther than this from every stored reply to this emotion (`Ranked.fit`) is most often nonsense; read off
the candidates for the benchmark's messages."""
FITS = "a stored reply fits how the message sounds"
"""Read on 200 messages, of what this model writes some seven of twenty replies are sayable and three harm. So it writes
only for a caller that offers no replies."""
WORDS_ENOUGH = 4
"""A first sentence shorter than this does not stand alone."""


@dataclass(frozen=True)
class Drawing:
    """How candidates are drawn for a sentence: how many, how long, how freely."""

    count: int
    tokens_max: int
    temperature: float
    top_p: float


class ReplyWriter:
    """Writes replies with `model`, helped by the stored ones."""

    def __init__(
        self,
        model: LanguageModel,
        prompt: ReplyPrompt,
        wheel: Wheel,
        embedder: Embedder,
        exemplars: Exemplars,
        gate: Gate,
        first: Drawing,
        then: Drawing,
    ) -> None:
        self._model, self._prompt, self._wheel = model, prompt, wheel
        self._embedder, self._exemplars, self._gate = embedder, exemplars, gate
        self._first, self._then = first, then
        self._recall = Recall(wheel, gate)

    def write(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        """Yields the reply's sentences, then its record; each sentence is computed when it is asked for.

        Once `request.stop` is set it ends at the model's next token, without a record.

        Raises:
            InvalidRequest: The message has no text, or an emotion is no label of the wheel.
        """
        check_order(request, self._wheel)
        return self._reply(request)

    def _reply(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        situation = situation_of(request, self._wheel)
        vector = self._embedder.embed([request.message.text])[0]
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
        rejected: list[str] = []
        prompt = self._prompt.text(request)
        unread = max(0, len(request.message.history) - HISTORY_TURNS_MAX)
        stopped = request.stop.is_set
        drawn = self._draw(prompt, self._first, self._prompt.first_grammar, request.seed, stopped)
        if stopped():
            return
        first = self._best(drawn, situation, vector, request.user_emotion, FIRST_FIT_MIN, rejected)
        if first is None:
            reply, is_example = self._stored(request, situation, vector)
            yield from map(ReplySentence, reply)
            yield ReplyRecord(DEGRADED, len(drawn), tuple(rejected), 0, unread, recalled.uses, int(is_example))
            return
        yield ReplySentence(first.text)
        situation = replace(situation, said=(*situation.said, first.text))
        prompt += first.text
        more = self._draw(prompt, self._then, self._prompt.next_grammar, request.seed + 1, stopped)
        if stopped():
            return
        written = [candidate for candidate in more if candidate.text]
        second = self._best(written, situation, vector, request.user_emotion, NEXT_FIT_MIN, rejected)
        degraded, is_example = "", False
        if second is not None:
            yield ReplySentence(second.text)
        elif len(words(first.text)) < WORDS_ENOUGH:
            degraded = DEGRADED
            reply, is_example = self._stored(request, situation, vector)
            yield ReplySentence(reply[-1])
        drawn_count = len(drawn) + len(written)
        yield ReplyRecord(degraded, drawn_count, tuple(rejected), 0, unread, recalled.uses, int(is_example))

    def _offered(self, request: ReplyRequest, own: tuple[str, ...], recalled: str) -> list[str]:
        """The sentences of an example of the identity's own, or of the first reply offered.

        What is remembered comes behind the first of several: "I'm sorry" is of what was said now. Without either the
        reply may begin with the user's own words.
        """
        said = list(own or sentences(request.replies[0]))
        if recalled:
            said.insert(int(len(said) > 1), recalled)
        elif not own and (heard := restated(request, self._gate)):
            said.insert(0, heard)
        return said

    def _draw(
        self,
        prompt: str,
        drawing: Drawing,
        grammar: str,
        seed: int,
        stopped: Callable[[], bool],
    ) -> list[Candidate]:
        sampling = Sampling(
            drawing.count, drawing.tokens_max, drawing.temperature, drawing.top_p, grammar, seed & 0x7FFFFFFF
        )
        return self._model.sample(prompt, sampling, stopped)

    def _best(
        self,
        drawn: list[Candidate],
        situation: Situation,
        vector: NDArray[np.float32],
        label: str,
        fit_min: float,
        rejected: list[str],
    ) -> Candidate | None:
        passed: dict[str, Candidate] = {}
        for candidate in drawn:
            reason = self._gate.refusal(candidate.text, situation)
            if reason:
                rejected.append(f"{reason}: {candidate.text}")
            else:
                passed.setdefault(candidate.text, candidate)
        ranked = rank(list(passed.values()), vector, label, self._exemplars, self._embedder)
        rejected.extend(f"unlike any answer: {one.candidate.text}" for one in ranked if one.fit < fit_min)
        return next((one.candidate for one in ranked if one.fit >= fit_min), None)

    def _stored(
        self, request: ReplyRequest, situation: Situation, vector: NDArray[np.float32]
    ) -> tuple[tuple[str, ...], bool]:
        """The stored reply that fits best: to a similar message if the gate lets it pass here, else a general one.

        The examples of the request come first; returns whether it is one of these.
        """
        if own := self._example(request, situation):
            return own, True
        label = self._wheel.label(request.user_emotion)
        kin = self._kin(request)
        matches = self._exemplars.nearest(vector, kin)
        matches.sort(key=lambda match: -match.similarity - SAME_LABEL_BONUS * (match.exemplar.label == label.name))
        for match in matches[:8]:
            reply = sentences(match.exemplar.reply)
            if match.similarity >= SIMILARITY_MIN and passes(self._gate, reply, situation):
                return reply, False
        return general_reply(request, situation, self._exemplars, self._gate, self._wheel), False

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
