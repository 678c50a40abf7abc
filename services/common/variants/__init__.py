"""Variants: configurations of a stage that traffic is split over, by one table that gateways and panels read live."""
