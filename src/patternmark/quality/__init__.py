"""What a mark costs: measures of designs and of texts."""
