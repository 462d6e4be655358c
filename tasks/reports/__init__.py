"""Pages and tables for people: one self-contained report per edition."""
