"""What serves DICE-Talk (Tan et al. 2025, arXiv:2504.18087) around a checkout of its own code.

Nothing of its code or weights is here: both are CC BY-NC-SA 4.0, and the operator supplies them.
"""
