"""The weights of patternmark's translator and structure predictor; each folder has a README."""
