"""Tells a message in which the user speaks of harming themselves: such a message is never left to a small model."""

import re

FIGURES = re.compile(
    r"\b(dying|killing me|kill me) (to|of|for|with)"
    r" (laugh\w*|see|know|hear|meet|boredom|curiosity|embarrassment|shame)\b"
    r"|\b(die|died|dying) ((of|from|with) )?(laugh\w*|embarrassment|shame|boredom|excitement)\b"
)
"""Ways of speaking that mean nothing of the kind."""

ACCIDENT = re.compile(
    r"\b(accident\w*|shaving|cooking|baking|ironing|playing|gardening|climbing|falling|oven|stove|pan|kettle|iron|razor"
    r"|paper|gym|sport|football|knife slipped|while (i was|chopping|cutting))\b"
)
"""A burn at the stove is no self-harm."""

HURT = re.compile(
    r"\b(kill|hang|shoot|drown|poison|cut|cutt|hurt|harm|burn|starv|scratch|punish)(s|t|e|ed|ing)?"
    r" (myself|my (own )?(arms?|wrists?|legs?|skin))\b"
)

SIGNS = re.compile(
    r"\bkill(ing)? myself\b|\b(hang|shoot|drown|poison)(ing)? myself\b|\bsuicidal\b|\bself[- ]?harm\w*\b|\bslit my\b"
    r"|\b(commit|attempt\w*|think\w* (of|about)|consider\w*|thoughts of|about|plan\w*) suicide\b"
    r"|\b(end|ending|take|taking|ended) (my|my own) life\b|\bways to (die|kill|end)\b|\bhappier dead\b"
    r"|\b(end it all|end it for good|end everything|want(ed)? to end it)\b"
    r"|\bi (just )?want (it all|everything) to (end|stop)\b|\b(isn't|is not|not|no longer) worth living\b"
    r"|\b(jump|step|throw myself|walk|lie down) (in front of|under) (a|the) (train|truck|car|bus)\b"
    r"|\bjump(ing)? (off|from) (a|the|that) (bridge|roof|building|balcony)\b"
    r"|\b(want|wanted|wish|ready|plan|hope|rather|better) (to |i (could|would|can) )?(just )?(die|be dead)\b"
    r"|\bwish i (was|were) (dead|never born)\b|\bwish i('d| had) never been born\b|\bdisappear forever\b"
    r"|\b(don't|do not|no longer|dont|didn't) (want|wish|deserve) to"
    r" (live|be alive|be here any ?more|exist|wake up|go on)\b"
    r"|\b(no|any|see the|the) (reason|point) (to|in|for|of) (live|living|go on|going on|be alive|being alive|life)\b"
    r"|\bbetter off (dead|without me)\b|\bbetter off if i (was|were) (dead|gone)\b"
    r"|\b(fall|go to) (a)?sleep and (never|not) wake up\b|\b(goodbye|suicide) (letter|note)s?\b"
    r"|\bi('ve| have)? (just )?(overdosed|od'd|took an overdose)\b"
    r"|\b(can't|cannot) (live|go on) (like this|any ?more|with this)\b"
    r"|\b(took|taken|take|taking|swallowed|swallow) (a lot of|all (of )?(my|the|his|her)|too many|\d+"
    r"|(a|the) (whole )?(bottle|box|pack|packet|handful)( of)?)( \w+)?"
    r" ?(pills?|painkillers?|tablets?|sleeping|medication|paracetamol|aspirin|ibuprofen|tylenol|bleach)\b"
)

OTHERS = re.compile(
    r"\b(he|she|they|who|brother|sister|friend|father|mother|dad|mum|mom|son|daughter|husband|wife|cousin|uncle|aunt"
    r"|neighbou?r|colleague)\b[^.!?]*\b(overdosed|committed suicide|suicide|self[- ]?harm\w*)\b"
)
"""Someone else's crisis or death is grief or worry, and is answered as such."""

SIMILARITY_MIN = 0.6
"""From here on a message lies as near to a stored cry for help as only cries for help do: the nearest of 700 everyday
messages that were measured came to 0.55."""


def is_crisis(message: str, similarity: float = 0.0) -> bool:
    """Tells whether the user speaks of suicide or self-harm of their own.

    Args:
        message: What the user said.
        similarity: Cosine similarity of the message to the nearest stored crisis message.
    """
    text = message.lower().replace("\u2019", "'")
    text = FIGURES.sub(" ", text)
    text = OTHERS.sub(" ", text)
    if SIGNS.search(text):
        return True
    if HURT.search(text) and not ACCIDENT.search(text):
        return True
    return similarity >= SIMILARITY_MIN and text == message.lower().replace("\u2019", "'")
