"""What all tests share."""

import os
import signal

import pytest
from hypothesis import settings

# A first call may compile a kernel, which takes longer than Hypothesis's 200 ms.
settings.register_profile("ubnet", deadline=None, print_blob=True)
settings.load_profile("ubnet")

# A shell lets what it starts in the background ignore Ctrl-C, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests neither read nor write the user's own cache.
os.environ["UBNET_CACHE"] = ""


@pytest.fixture(scope="session")
def cloudmatrix():
    """The whole supernode, built once."""
    from ubnet.fabrics import load_fabric

    return load_fabric("cloudmatrix384")
