"""Measures of what a mark costs: the quality of designs."""
