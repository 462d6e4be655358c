"""Which stages make an edition, from which inputs, in which order: one file for each part of the pipeline."""
