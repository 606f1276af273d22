"""What is learned."""

from harness.domains.fold import Fold
from harness.domains.markov import Markov
from harness.domains.text import Text

DomainConfig = Markov | Fold | Text

__all__ = ["DomainConfig", "Fold", "Markov", "Text"]
