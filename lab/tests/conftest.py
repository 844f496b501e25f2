"""The fixtures of the product's tests, which need nothing of the lab."""

from tests.conftest import (  # noqa: F401
    _same_keys_in_every_run,
    key,
    key_file,
    rng,
    run,
    secret,
    tokenizers_made,
)
