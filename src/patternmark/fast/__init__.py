"""Compiled loops that several rooms share, and the decision whether to use them."""
