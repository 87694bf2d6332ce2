import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def plain():
    """The file of averages on plain grids next to this one, as tests are no package to import it from."""
    path = Path(__file__).with_name("plain_link.py")
    spec = importlib.util.spec_from_file_location("glassformer_plain_link", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
