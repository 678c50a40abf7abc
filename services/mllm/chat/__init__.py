"""How a chat model is asked for an emotion and for a reply, whichever model it is."""
