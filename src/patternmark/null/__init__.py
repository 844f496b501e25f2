"""Exact null distributions: how often chance alone does at least as well."""

from patternmark.null.pattern import PatternNull

__all__ = ["PatternNull"]
