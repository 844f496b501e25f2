"""`python -m patternmark` is the `patternmark` command."""

from patternmark.cli import main

main()
