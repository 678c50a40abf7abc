"""What the embedded English voices share: sentences, sounds, lips, manners, timbre, likeness and loudness."""
