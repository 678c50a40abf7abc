"""Programs that print ratios side by side in one run."""
