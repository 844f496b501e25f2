"""Byte-level BPE with one vocabulary for both languages; no text has unknown tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from patternmark.errors import InputError
from patternmark.io.bounded import VOCABULARY_BYTES, read_text
from patternmark.io.files import make_folder, write_text

# The id of each is its index here, as in `models.cmlm.Config`.
SPECIAL = ("<pad>", "<s>", "</s>", "<mask>", "<length>")


class TextCodec:
    """Turns texts into token ids and back."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # The characters <mask> in a text are read as text, not as the special token.
        self._tokenizer.encode_special_tokens = True
        self.size: int = tokenizer.get_vocab_size()

    @classmethod
    def load(cls, file: Path) -> TextCodec:
        """Read a tokenizer.json."""
        try:
            return cls(Tokenizer.from_str(read_text(file, VOCABULARY_BYTES)))
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from None
        except Exception as error:  # the library raises plain Exception
            raise InputError(f"{file}: not a tokenizer.json: {error}") from None

    def save(self, file: Path) -> None:
        """Write the tokenizer as tokenizer.json."""
        make_folder(file.parent)
        write_text(file, self.content)

    @property
    def content(self) -> str:
        """The content of tokenizer.json."""
        return str(self._tokenizer.to_str(pretty=True))

    @property
    def has_our_special(self) -> bool:
        """Whether the special tokens are those of our own networks."""
        return [self._tokenizer.token_to_id(token) for token in SPECIAL] == [*range(len(SPECIAL))]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, without special tokens."""
        try:
            found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        # The library raises plain Exception, such as for a letter that has no token.
        except Exception as error:
            raise InputError(f"the tokenizer of the model cannot split a text: {error}") from None
        return [encoding.ids for encoding in found]

    def decode_batch(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids."""
        texts = self._tokenizer.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        return [text.strip() for text in texts]
