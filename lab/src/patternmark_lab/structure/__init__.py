"""The structure predictor: its data, training and model card."""
