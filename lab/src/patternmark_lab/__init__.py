"""Benchmarks, comparison schemes and training of patternmark: what its users do not need."""
