"""Pictures of verdicts and of rates, and a page on designs."""
