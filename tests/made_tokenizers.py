"""Small real tokenizers of every kind, trained on the licence of this package."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LINES = [  # sentencepiece reads two blanks as one
    " ".join(line.split())
    for line in (Path(__file__).parent.parent / "LICENSE").read_text().splitlines()
    if line.strip()
]
# Nothing of it may become a special token.
TRICKY = "Licensor <mask> and [MASK] <s> </s><pad> [CLS]<unk> <|endoftext|> shall mean"
KINDS = ("bpe.json", "wordpiece.json", "unigram.json", "pieces.model", "bert", "gpt2", "t5")


def make_tokenizers(folder: Path) -> Path:
    """Train one tokenizer of each kind and save it under its name in KINDS, and a few more."""
    _byte_level(["<pad>", "<mask>"]).save(str(folder / "bpe.json"))
    _word_piece().save(str(folder / "wordpiece.json"))
    _unigram().save(str(folder / "unigram.json"))
    _sentence_piece(folder / "pieces")
    _transformers(folder)
    _dictionary(folder / "dict.en.txt")
    return folder


def _byte_level(special: list[str]) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(LINES, trainer)
    return made


def _word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=special, show_progress=False)
    made.train_from_iterator(LINES, trainer)
    return made


def _unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=500,
        special_tokens=["<unk>", "<s>", "</s>", "<mask>"],
        unk_token="<unk>",
        show_progress=False,
    )
    made.train_from_iterator(LINES, trainer)
    return made


def _sentence_piece(prefix: Path) -> None:
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_prefix=str(prefix),
        vocab_size=500,
        byte_fallback=True,
        control_symbols=["<mask>"],
        user_defined_symbols=["§"],
        minloglevel=2,
    )


def _transformers(folder: Path) -> None:
    """Folders as transformers saved them before there was a tokenizer.json."""
    configurations = {
        "bert": {"tokenizer_class": "BertTokenizer", "do_lower_case": True},
        "gpt2": {"tokenizer_class": "GPT2Tokenizer"},
        "t5": {"tokenizer_class": "T5Tokenizer", "pad_token": "</s>"},
    }
    for name, configuration in configurations.items():
        (folder / name).mkdir()
        (folder / name / "tokenizer_config.json").write_text(json.dumps(configuration))
    _word_piece().model.save(str(folder / "bert"))
    _byte_level(["<|endoftext|>"]).model.save(str(folder / "gpt2"))
    (folder / "t5" / "spiece.model").write_bytes((folder / "pieces.model").read_bytes())


def _dictionary(path: Path) -> None:
    counts = Counter(word for line in LINES for word in line.split())
    lines = [f"{word} {count}" for word, count in counts.most_common()]
    path.write_text("\n".join([*lines, "madeupword0000 0", "madeupword0001 0"]) + "\n")
