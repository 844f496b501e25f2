"""The structure predictor: its data, its training, its card."""
