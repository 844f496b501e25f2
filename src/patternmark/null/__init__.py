"""Null distributions: how often chance alone reaches the same statistic."""

from patternmark.null.pattern import PatternNull

__all__ = ["PatternNull"]
