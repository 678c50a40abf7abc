"""Takes out of what a model writes all that nobody says aloud: names of roles, stage directions, markup."""

import re
import unicodedata

_STAGE = re.compile(r"^\s*(?:\*(?!\*)[^*]{1,60}\*(?!\*)|\([^()]{1,60}\)|\[[^\[\]]{1,60}\])[\s:,]*(?=$|[^a-z\s])")
"""A direction at the start, as in "*smiles softly* I'm here." or "(pauses) I see."; "*Really* sad" goes on small."""
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_LIST = re.compile(r"^\s*(?:[-*+\u2022#>]+|\d{1,2}[.)])\s+")
_MARKUP = re.compile(r"[*`~^|<>\\{}#\u2039\u203a\ufe00-\ufe0f]+|(?<![^\W_])_+|_+(?![^\W_])")
_EMOTICON = re.compile(r"(?<!\w)(?:[:;=8][-']?[()DPpOo|/\\\[\]]|<3|\^_\^)(?!\w)")
_DOUBLE_QUOTES = re.compile(r"[\"\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f]")
_ROLES = "assistant|listener|avatar|reply|response|answer|model|bot|ai"
_UNSPOKEN = frozenset({"So", "Sk", "Cc", "Cf", "Cs", "Co", "Cn"})
_JOINERS = "\u200c\u200d"


def speakable(text: str, name: str = "") -> str:
    """Returns a sentence as it can be spoken, or an empty string when nothing of it can.

    Args:
        text: A sentence of a reply.
        name: Of whom it is; "Anna: Hello." begins with it as with a role.
    """
    roles = f"{_ROLES}|{re.escape(name)}" if name.strip() else _ROLES
    text = re.sub(rf"^[\W_]*(?:{roles})[*_\s]*[:\uff1a][*_\s]*", "", text, flags=re.IGNORECASE)
    text = _STAGE.sub("", _LINK.sub(r"\1", text))
    text = _MARKUP.sub("", _EMOTICON.sub("", _LIST.sub("", text)))
    text = "".join(one for one in text if one in _JOINERS or unicodedata.category(one) not in _UNSPOKEN)
    text = " ".join(text.split())
    quotes = _DOUBLE_QUOTES.findall(text)
    if len(quotes) % 2 or (quotes and text[0] == quotes[0] and text[-1] == quotes[-1] and len(quotes) == 2):
        # The quotation is the reply itself, or it ends in another sentence.
        text = _DOUBLE_QUOTES.sub("", text)
    text = text.strip()
    # A line that ends in a colon only announces what comes: "Here is my reply:"
    return "" if text.endswith((":", "\uff1a")) or not any(one.isalnum() for one in text) else text
