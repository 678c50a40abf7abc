"""The memory's contract: servicers and the conversion of messages."""
