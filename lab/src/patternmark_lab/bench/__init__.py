"""Benchmarks: commands that measure ratios within one run and write their results as JSON."""
