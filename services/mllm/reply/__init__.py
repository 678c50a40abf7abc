"""How a reply is made good: stored exemplars, the gate that refuses bad sentences, the ranking."""
