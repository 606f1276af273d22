"""Arms and seeds become cells, and workers run them."""
