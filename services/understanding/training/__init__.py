"""Learns what the voters' votes weigh."""
