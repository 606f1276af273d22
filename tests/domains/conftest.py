"""Which generator do these tests draw from?"""

import pytest
import torch

from harness.domains.base import stream


@pytest.fixture
def generator() -> torch.Generator:
    return stream(0, "test")
