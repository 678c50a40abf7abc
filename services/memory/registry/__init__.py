"""The identities: who they are, their files, what was allowed, what they can show and how they answer."""
