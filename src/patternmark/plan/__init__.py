"""Planning: how likely a mark will be found, and how often unmarked sequences are called marked."""
