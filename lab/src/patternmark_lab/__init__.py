"""Benchmarks, comparison schemes and training: the parts of patternmark that users do not need."""
