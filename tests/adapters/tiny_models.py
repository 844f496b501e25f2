"""Small models of the real classes, with random weights, and keys for their tokens.

All of them have more columns of logits than there are tokens, as padded vocabularies do.
"""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from patternmark import PROTEIN, Alphabet, Key, Profile
from patternmark.core.alphabet import PROTEIN_BACKGROUND
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patternmark.adapters.protein_lm import ESM_TOKENS  # noqa: E402

torch.set_num_threads(1)

PAD, BOS, EOS, UNKNOWN, MASK = SPECIAL = range(5)
NUM_TOKENS, NUM_COLUMNS = 1000, 1024
NO_TOKENS = list(range(NUM_TOKENS, NUM_COLUMNS))
NEVER = [*SPECIAL, *NO_TOKENS]  # written by no model
WORDS = Alphabet.from_symbols(
    "words",
    ["<pad>", "<s>", "</s>", "<unk>", "<mask>", *(f"w{i}" for i in range(5, NUM_TOKENS))],
    unscored=SPECIAL,
)

_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def words_key(
    secret: Secret, scheme: str = "paper", *, starts: int = 1, nonces: int = 1, **others: Any
) -> Key:
    chosen = {"paper": Paper(), "turns": Turns(starts=starts, nonces=nonces)}[scheme]
    return Key.of(secret, Profile(WORDS, chosen, **{"delta": 3.0, **others}))


def prompts(batch: int, length: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(len(SPECIAL), NUM_TOKENS, (batch, length), generator=generator)


def tiny_bert(columns: int = NUM_COLUMNS, spread: float = 0.02) -> Any:
    """A masked model of text; a larger `spread` of its weights makes it surer of itself."""
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=columns,
        intermediate_size=64,
        max_position_embeddings=300,
        initializer_range=spread,
        pad_token_id=PAD,
        **_SIZES,
    )
    return transformers.BertForMaskedLM(config).eval()


def fluent_bert(spread: float = 0.2) -> Any:
    """A model that never writes special tokens."""
    bert = tiny_bert(spread=spread)
    with torch.no_grad():
        bert.cls.predictions.bias[NEVER] = -50.0
    return bert


def tiny_esm(columns: int = 33) -> Any:
    """A masked model of proteins that knows how frequent letters are, and little else."""
    torch.manual_seed(2)
    config = transformers.EsmConfig(
        vocab_size=columns,
        mask_token_id=32,
        pad_token_id=1,
        intermediate_size=64,
        max_position_embeddings=300,
        position_embedding_type="rotary",
        initializer_range=0.05,
        **_SIZES,
    )
    model = transformers.EsmForMaskedLM(config).eval()
    with torch.no_grad():
        for letter, weight in zip(PROTEIN.letters[:20], PROTEIN_BACKGROUND, strict=False):
            model.lm_head.bias[ESM_TOKENS.index(letter)] += log(weight)
    return model


def tiny_gpt2(seed: int = 3) -> Any:
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=NUM_COLUMNS,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=300,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def tiny_llama() -> Any:
    torch.manual_seed(4)
    config = transformers.LlamaConfig(
        vocab_size=NUM_COLUMNS,
        intermediate_size=64,
        max_position_embeddings=300,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        **_SIZES,
    )
    return transformers.LlamaForCausalLM(config).eval()


def tiny_diffusion_gemma(canvas: int = 64) -> Any:
    torch.manual_seed(5)
    text = transformers.DiffusionGemmaTextConfig(
        vocab_size=NUM_COLUMNS,
        intermediate_size=64,
        num_key_value_heads=1,
        head_dim=16,
        global_head_dim=16,
        max_position_embeddings=512,
        layer_types=["sliding_attention", "full_attention"],
        num_experts=2,
        top_k_experts=1,
        moe_intermediate_size=32,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=BOS,
        **_SIZES,
    )
    vision = transformers.Gemma4VisionConfig(
        intermediate_size=32, num_key_value_heads=2, head_dim=16, **_SIZES
    )
    config = transformers.DiffusionGemmaConfig(
        text_config=text,
        vision_config=vision,
        canvas_length=canvas,
        boi_token_id=1020,
        eoi_token_id=1021,
        image_token_id=1022,
    )
    return transformers.DiffusionGemmaForBlockDiffusion(config).eval()
