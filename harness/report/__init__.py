"""Records become statistics, tables, figures and verdicts."""
