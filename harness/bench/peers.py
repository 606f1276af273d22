"""How do the peers get beside us? `python -m harness.bench.peers`: an environment of their own.

Liger and TRL go into `.venv-peers`, which borrows this environment's packages, so that they never
become dependencies; then the table is measured there.
"""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PEERS = ("liger-kernel", "trl")


def main() -> int:
    """Make the environment where it is missing; run the table in it with the given arguments."""
    home = Path(".venv-peers")
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        found = subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        )
        borrowed = Path(found.stdout.strip()) / "borrowed.pth"
        # As a site folder, whose own .pth files count too: this package is one of them.
        borrowed.write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True)
    table = [str(python), "-W", "ignore", "-m", "harness.bench.table", *sys.argv[1:]]
    return subprocess.run(table, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
