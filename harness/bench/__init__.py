"""Speed as a ratio to a reference in the same process."""
