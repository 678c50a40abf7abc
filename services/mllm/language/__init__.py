"""The language model's runtime, and the vote that is read from its likelihoods."""
