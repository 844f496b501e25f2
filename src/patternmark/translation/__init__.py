"""Marked translation: the corpus, the training of CMLM, and its use on lines of text."""
