"""The parts of the hibari voice: sentences, network, lips, timbre, manner and likeness."""
