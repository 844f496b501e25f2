"""Keys for worker processes: the one place where secrets are pickled, and only on request."""

from __future__ import annotations

import io
import pickle

from patternmark.core.secret import Secret


def pickle_with_secrets(content: object) -> bytes:
    """Pickle something with the secrets in it, for a worker that needs them and keeps them."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream)
    pickler.dispatch_table = {Secret: lambda secret: (_restored, (secret.reveal_hex(),))}
    pickler.dump(content)
    return stream.getvalue()


def _restored(hexadecimal: str) -> Secret:
    return Secret(bytes.fromhex(hexadecimal))
