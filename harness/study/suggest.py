"""What did somebody mean who wrote a name that is not there?"""

import difflib
from collections.abc import Collection


def did_you_mean(given: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name, or nothing where none is near."""
    near = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
