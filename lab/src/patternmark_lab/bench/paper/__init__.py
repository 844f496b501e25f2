"""All tables and figures of the paper, rerun and compared with the paper's own numbers."""
