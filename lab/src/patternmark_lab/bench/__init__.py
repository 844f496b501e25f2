"""Benchmarks: commands that print ratios measured in one run and keep their results as JSON."""
