"""A command of the lab without the packages that it needs."""

import sys
from collections.abc import Callable

import pytest

from tests.conftest import Outcome


def test_a_missing_package_is_named_with_the_remedy(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "patternmark.models.device", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("bench", "translation", "pairs.tsv")
    assert done.status == 2
    assert (
        "error: this needs torch, which is not installed. To install all that the lab needs: "
        in done.err
    )
