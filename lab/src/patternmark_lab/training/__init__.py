"""Training of CMLM: the corpus, the teacher, the training itself, and the model card."""
