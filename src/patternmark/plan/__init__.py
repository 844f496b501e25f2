"""Estimate how often a mark is found, and how often unmarked sequences are called marked."""
