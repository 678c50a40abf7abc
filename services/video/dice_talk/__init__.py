"""What serves DICE-Talk (Tan et al. 2025, arXiv:2504.18087) around a checkout of its own code.

Nothing of its code or weights is here: both are CC BY-NC-SA 4.0, and the operator supplies them.

The story: `checkout` opens the operator's code, `models` loads its networks, `priors` converts the emotions' pickles.
What the U-Net is told comes from the portrait (`identity`), the speech (`audio`) and the emotion (`emotion`);
`denoising` calls it, in the `windows` of each step, and `decoding` makes pictures of what it found. `renderer` puts
them together for one of the `tiers`, and measures with a `clock` what that `costs`. `backends/dice_talk.py` puts it
behind the port.
"""
