"""Models that can be marked: published weights and the samplers that use them."""
