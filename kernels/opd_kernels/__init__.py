"""Divergences between a student and its teachers, exact, from cached hidden states."""
