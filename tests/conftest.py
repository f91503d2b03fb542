"""What all tests share."""

import pytest
from hypothesis import settings

# A first call may compile a kernel, which takes longer than Hypothesis's 200 ms.
settings.register_profile("ubnet", deadline=None, print_blob=True)
settings.load_profile("ubnet")


@pytest.fixture(scope="session")
def cloudmatrix():
    """The whole supernode, built once."""
    from ubnet.fabrics import load_fabric

    return load_fabric("cloudmatrix384")
