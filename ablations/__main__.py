"""`python -m ablations` is `opd`."""

from harness.cli import app

if __name__ == "__main__":
    app()
