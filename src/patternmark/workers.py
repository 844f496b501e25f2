"""Send keys to worker processes: the only place where secrets are pickled."""

from __future__ import annotations

import io
import pickle

from patternmark.core.secret import Secret


def pickle_with_secrets(content: object) -> bytes:
    """Pickle an object together with its secrets, for a worker process that needs them."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream)
    pickler.dispatch_table = {Secret: lambda secret: (_restore, (secret.reveal_hex(),))}
    pickler.dump(content)
    return stream.getvalue()


def _restore(hexadecimal: str) -> Secret:
    return Secret(bytes.fromhex(hexadecimal))
