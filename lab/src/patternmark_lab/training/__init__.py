"""CMLM: its corpus, its teacher, its training, its card."""
