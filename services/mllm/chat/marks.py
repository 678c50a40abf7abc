"""Takes the power out of the marks by which models tell turns, media and thoughts apart."""

import re
import unicodedata

_BRACKETS = str.maketrans({"<": "\u2039", ">": "\u203a", "\uff1c": "\u2039", "\uff1e": "\u203a"})
_BRACKETED = re.compile(r"\[(/?\w+)\]")


def without_marks(text: str) -> str:
    """Returns `text` with no mark of any model in it, still legible.

    Marks of all the families are in angle brackets (`<|im_end|>`, `</s>`, `<start_of_turn>`, `<<SYS>>`, `<image>`,
    `<think>`), or one word in square ones (`[INST]`). All angle brackets become single quotation marks, which no
    tokenizer holds to be a mark: a list of the marks that are known today would miss tomorrow's. Control characters
    but line ends and tabs go.
    """
    printable = "".join(one for one in text if one in "\n\t" or unicodedata.category(one) != "Cc")
    return _BRACKETED.sub(r"(\1)", printable.translate(_BRACKETS))
