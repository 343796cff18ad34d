"""A fixture for files whose tests collect garbage often, or let the product do so."""

import gc

import pytest


@pytest.fixture(scope="module")
def old_heap_frozen() -> None:
    """Keep what earlier tests have left out of the collections of this file: each would go through all of it."""
    gc.collect()
    gc.freeze()
