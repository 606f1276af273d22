"""One file is one section of a paper."""
