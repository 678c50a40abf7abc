"""The parts of the Kokoro voice: the network, its 28 speakers, and who of them is nearest to a recording."""
