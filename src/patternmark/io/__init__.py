"""Reading and writing: sequences, key files, vocabularies."""
