"""Read and write files: sequences, structures, vocabularies, designs."""
