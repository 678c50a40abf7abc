"""The `e3rg` command's actions, a module for each subject: its parser, and what its actions print."""
