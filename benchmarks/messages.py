"""Messages that benchmarks send when they are given none."""

MESSAGES = (
    "My grandmother is in hospital and I am really worried about her.",
    "I finally passed the exam I had been afraid of for a year!",
    "My neighbour plays loud music every night and I cannot sleep any more.",
    "I feel lonely since I moved to this city, nobody ever calls me.",
    "We found a stray kitten under our car this morning, and she is so sweet.",
)
