"""The mark for other people's programs, which run as they are."""
