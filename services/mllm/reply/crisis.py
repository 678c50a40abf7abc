"""Tells a message in which the user speaks of harming themselves: such a message is never left to a small model.

Two kinds are told apart: plain words are a sign whatever else is said, veiled ones only while nothing in the message
explains them otherwise. What neither lists may still lie near to a stored cry for help.
"""

import re

FIGURES = re.compile(
    r"\b(dying|killing me|kill me) (to|of|for|with)"
    r" (laugh\w*|see|know|hear|meet|boredom|curiosity|embarrassment|shame)\b"
    r"|\b(die|died|dying) ((of|from|with) )?(laugh\w*|embarrassment|shame|boredom|excitement)\b"
    r"|\b(don't|do not|didn't) want to die\b|\brather die than (?!live|go on|be alive|wake)"
)
"""Ways of speaking that mean nothing of the kind."""

ACCIDENT = re.compile(
    r"\b(accident\w*|shaving|cooking|baking|ironing|playing|gardening|climbing|falling|fell|cat|rose\w*|thorns?|glass|oven|stove|pan|kettle|iron|razor"
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
    r"|\b(end it all|end it for good|end everything|want(ed)? to end it(?! (with|here)))\b"
    r"|\bi (just )?want (it all|everything) to (end|stop)\b|\b(isn't|is not|not|no longer) worth living\b"
    r"|\b(jump|step|throw myself|walk|lie down) (in front of|under) (a|the) (train|truck|car|bus)\b"
    r"|\bjump(ing)? (off|from) (a|the|that) (bridge|roof|building|balcony)\b"
    r"|\b(want|wanted|wish|ready|plan|hope|rather|better) (to |i (could|would|can) )?(just )?(die|be dead)\b"
    r"|\bwish i (was|were) (dead|never born)\b|\bwish i('d| had) never been born\b|\bdisappear forever\b"
    r"|\b(don't|do not|no longer|didn't) (want|wish|deserve) to (live|be alive|exist|wake up)\b"
    r"|\b(no|any|see the|the) (reason|point) (to|in|for|of) (live|living|go on|going on|be alive|being alive|life)\b"
    r"|\bbetter off (dead|without me)\b|\bbetter off if i (was|were) (dead|gone)\b"
    r"|\b(fall|go to) (a)?sleep and (never|not) wake up\b|\b(goodbye|suicide) (letter|note)s?\b"
    r"|\bi('ve| have)? (just )?(overdosed|od'd|took an overdose)\b"
    r"|\b(can't|cannot) (live|go on) (like this|any ?more|with this)\b"
    r"|\b(took|taken|take|taking|swallowed|swallow) (a lot of|all (of )?(my|the|his|her)|too many|\d+"
    r"|(a|the) (whole )?(bottle|box|pack|packet|handful)( of)?)( \w+)?"
    r" ?(pills?|painkillers?|tablets?|sleeping|medication|paracetamol|aspirin|ibuprofen|tylenol|bleach)\b"
)

VEILED = re.compile(
    "|".join(
        (
            # Means at hand.
            r"\b(rope|noose|gun|pistol|rifle|razor( blades?)?)( is| are)?( all)? (ready|loaded)\b",
            r"\b(gun|pistol|pills|tablets|razor( blades?)?) (in front of me|in my hands?|next to me|beside me)\b",
            r"\b(knife|blade|razor|gun|pistol) (at|to|on|against) my (wrists?|throat|head|neck|temple)\b",
            r"\b(looking|staring|stare) at (the|my) (pills|rope|gun|razor|tracks)\b",
            r"\bi('m| am) (\w+ )?on the (train |railway )?(tracks|rails)\b",
            r"\b(rope|noose|gun|pistol|rifle|pills|tablets|razor)\b[^.!?]* so (that )?(it|everything)"
            r" (all )?(finally )?(stops|ends)\b",
            r"\b(saving|saved|hoard\w*|stockpil\w*|collecting) (up )?((my|all|the|enough|of) )*(sleeping )?"
            r"(pills|tablets|painkillers)\b",
            r"\bhow many (\w+ )?(pills|tablets|painkillers) (would|will|does|do) (it|i) (take|need)\b[^.!?]*"
            r"(\?|\bto (die|sleep for ?ever|not wake up))",
            r"\b(easiest|quickest|fastest|best|painless|least painful) way to (die\b|end it\s*([?.!]|$))",
            r"\b(took|swallowed) the (whole|entire) (packet|bottle|box|strip)\s*([.!]|$)",
            r"\b(edge|ledge) of (the|a) (roof|bridge|cliff|building|platform)\b",
            r"\bbridge\b[^.!?]*\bthinking (of|about) jumping\b",
            r"\b(bridge|roof|building) is high enough\s*([.!]|$)",
            r"\b(razor|blade|cutting) is the only thing that (helps|works|calms)\b",
            r"\b(made|fresh|new|hid\w*) (\w+ )?(cuts|scars) on my (arms?|wrists?|legs?|thighs?)\b",
            # Farewells.
            r"\bi('m| am) (so )?done\s*([.!,]|and\b|so\b)[^?]*\bgoodbye\b",
            r"\bgoodbye (forever|for ever|cruel world|world)\b|\bgoodbye\W+i('m| am) sorry for everything\b",
            r"\bthis is (goodbye|my (last|final) (message|words|goodbye))\b",
            r"\bby the time you (read|get|hear|see|find) (this|me)\b[^.!?]*\b(gone|dead|no longer (here|alive))\b",
            r"\btell (my \w+|them|everyone|him|her) (that )?i love(d)? (them|him|her)\b[^?]*"
            r"\b(can't do this|sorry|goodbye|gone)\b",
            r"\bgiv\w+ away (everything|all (of )?my (things|stuff|belongings))\b[^?]*\bwon't need\b",
            r"\b(farewell|last) (letter|note)s? to (my|everyone)\b",
            r"\bready to go\b[^?]*\bmade my peace( with it)?\s*([.!]|$)|\bmade my peace with (dying|death)\b",
            r"\bit (all )?ends (tonight|today)\b",
            r"\b(join|be with|follow) (my )?\w+ (in heaven )?(soon|tonight) in heaven\b|\bin heaven (soon|tonight)\b",
            # Plans that are not named.
            r"\b(feel like|think\w* (of|about)|going to|gonna|want to|ready to|about to|decided to)"
            r" end(ing)? (it|things)( (tonight|today|now|soon))?\s*([.!,]|$)",
            r"^(and )?tonight (i'll|i will|i'm going to|i'm gonna) (finish|end) it( all)?\s*[.!]*$",
            r"\b(kms|unalive myself)\b",
            r"\b(you|they|everyone|everybody|family|parents|nobody|no one) (won't |don't |will |would )?(never )?"
            r"(have|need) to"
            r" (worry about|deal with|put up with|care for|bother with) me"
            r" (after (tonight|today|tomorrow)|any ?more|again|much longer)\b",
            r"\bnobody has to deal with me\b",
            r"\bafter (tonight|today|tomorrow) i won't be (a (problem|burden|bother)|any trouble|around|here|alive)\b",
            r"\bi won't be (around|alive|here) (much longer|for long)\b",
            r"\bit('ll| will) (all )?(soon )?be over for me\b",
            # No way on.
            r"\b(don't|do not|no longer) (want|wish) to (be here any ?more|go on)\b"
            r"(?! (with|to|a|the|about)\b)(?!.*\b(town|village|city)\b)",
            r"\b(no|only one) way out (for me|any ?more|left|of this(?= *([.!]|$)))",
            r"\bi can't go on\s*([.!]|$)",
            r"\b(the|this|my) pain to (stop|end|be over) (forever|for ever|for good)\b",
            r"\bdisappear and never (come back|return|be found)\b|\b(stop|cease) (existing|to exist)\b",
            r"\bwant to sleep (forever|for ever)\b",
            r"\b(enough|tired|sick|weary) of (this|my) life\b|\b(see|imagine) myself living\b",
            r"\bcan't keep (on )?living\b|\bhope i (don't|never) wake up\b",
            r"\b(want to|ready to|going to) leave (it|this (world|life|earth))\s*([.!]|$)",
            r"\bdon't belong in this world\b|\blife (has|holds) no (meaning|point|purpose)\b|\bnothing left for me\b",
            r"\btired of everything\b[^?]*\bi want out\b|\bwant (everything|it all) to be over\b",
            r"\bnothing (left )?to live for\b|\breason to keep (breathing|living)\b",
            r"\bwish (the|that|a) (car|bus|truck|train|lorry) had hit me\b",
            r"\b(imagin\w*|think\w* (of|about)) (driving|steering|crashing)( (my|the) car)? into (a|the)\b",
            r"\b(don't|won't|not) (think i'll |think i will )?make it through (the|this) night\b",
            r"\bdon't deserve to be (on|in) this (planet|world|earth)\b",
            r"\bno future for me\b|\bdon't see (a|any) future (for (me|myself)|with me)\b(?! (in|at|here|there|with))",
            # A burden, not missed.
            r"\ba burden (to|on|for) (everyone|everybody|my family|my parents|my kids|them all)\b",
            r"\bno(body| ?one)( would| will|'d|'ll)?( even)? (miss|notice|care|cry)\b[^.!?]*"
            r"\bi (died|die|was (gone|dead)|were (gone|dead)|disappear(ed)?)\b",
            r"\b(better|happier) off without a \w+ like me\b",
            r"\b(better|happier|easier)( off)? (if|when) i('m| am| was| were)( not| no longer)?"
            r" (gone|dead|around|alive)\b",
        )
    )
)

EVERYDAY = re.compile(
    r"\b(see (you|ya)|next (week|month|year)|holidays?|vacation|trip|travel\w*|flight|plane|climb\w*|hik(e|ing)|sail\w*"
    r"|camping|party|homework|novel|chapter|book|thesis|essay|report|project|puzzle|painting|contract|lease|flat"
    r"|apartment|night shift|jet ?lag|nap|team|game|level|propos\w*|view|amazing|photos?|sunset|fireworks|boat|headache"
    r"|dose|meals?|vitamins?|meeting|chat|song|toast|cook\w*|hunt\w*|recycling|departments?)\b"
)
"""What explains veiled words otherwise."""

MISSPELT = {"im": "i'm", "ive": "i've", "dont": "don't", "doesnt": "doesn't", "wont": "won't", "cant": "can't"}

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
    said = " ".join(MISSPELT.get(word, word) for word in message.lower().replace("\u2019", "'").split())
    text = OTHERS.sub(" ", FIGURES.sub(" ", said))
    if SIGNS.search(text) or (VEILED.search(text) and not EVERYDAY.search(text)):
        return True
    if HURT.search(text) and not ACCIDENT.search(text):
        return True
    return similarity >= SIMILARITY_MIN and text == said
