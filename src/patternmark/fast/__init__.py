"""Compiled loops: whether they are used, and what several rooms share of them."""
