"""Every table and figure of the paper, rerun, beside the paper's own numbers."""
