"""The examples of hooks.md import modules of torch that warn about themselves."""

import pytest

_QUIET = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name == "hooks.md":
            item.add_marker(_QUIET)
