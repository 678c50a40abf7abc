"""What stands between the contract and the memory: a servicer for each service, and the conversion of messages."""
