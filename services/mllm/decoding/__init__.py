"""Language models in PyTorch, token by token: a chat becomes tokens, a prompt is read, an answer is drawn or scored."""
