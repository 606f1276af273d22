"""One configuration and one seed become one record."""
