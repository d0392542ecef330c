"""Figures of the review desk, counted from what is on record."""
