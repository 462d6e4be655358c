"""Survey selectors, one file each: who decides whether a candidate is a literature survey."""
