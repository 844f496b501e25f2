"""What people look at: pictures of verdicts and of rates, and a page on designs."""
