"""Administration of variants at the gateway: checks, changes, and rollbacks that nobody asks for."""
