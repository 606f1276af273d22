"""Who learns it."""
