"""Add the mark to other people's programs, which need no changes."""
