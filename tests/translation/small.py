"""Sentence pairs, a tokenizer learned from them, and the sizes of a small network."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from patternmark.models.cmlm import Config
from patternmark.translation.bpe import SPECIAL, TextCodec

PAIRS: list[tuple[str, str]] = [
    ("Der Hund schläft unter dem Tisch.", "The dog is sleeping under the table."),
    ("Wir fahren morgen mit dem Zug nach Hamburg.", "Tomorrow we take the train to Hamburg."),
    ("Sie liest jeden Abend ein Buch.", "She reads a book every evening."),
    ("Das Fenster war die ganze Nacht offen.", "The window was open all night."),
    ("Können Sie mir bitte helfen?", "Can you help me, please?"),
    ("Der Bericht wurde gestern angenommen.", "The report was adopted yesterday."),
    ("Ich habe meinen Schlüssel verloren.", "I have lost my key."),
    ("Im Winter ist der See gefroren.", "In winter the lake is frozen."),
    ("Die Kinder spielen im Garten.", "The children are playing in the garden."),
    ("Niemand wusste, wie spät es war.", "Nobody knew what time it was."),
    ("Er kocht heute Suppe für alle.", "Today he is making soup for everyone."),
    ("Der Wein ist zu teuer.", "The wine is too expensive."),
    ("Warum hast du nicht angerufen?", "Why did you not call?"),
    ("Die Brücke ist seit Montag gesperrt.", "The bridge has been closed since Monday."),
    ("Meine Schwester wohnt in einem kleinen Dorf.", "My sister lives in a small village."),
    ("Das Konzert beginnt um acht Uhr.", "The concert begins at eight o'clock."),
    ("Vergiss den Regenschirm nicht!", "Do not forget the umbrella!"),
    ("Alle Stimmen wurden zweimal gezählt.", "All votes were counted twice."),
    ("Der Arzt kommt in einer Stunde.", "The doctor will come in an hour."),
    ("Am Ufer stehen drei alte Bäume.", "Three old trees stand on the bank."),
]


@cache
def codec() -> TextCodec:
    """Return a byte-level BPE of 320 entries."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator((text for pair in PAIRS for text in pair), trainer)
    return TextCodec(made)


def config(*, causal: bool = False) -> Config:
    small = Config(codec().size, width=32, hidden=64, heads=2, encoder_layers=1, decoder_layers=2)
    return replace(small, causal=causal)
