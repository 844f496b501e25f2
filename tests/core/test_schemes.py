"""Each scheme owns its parameters and refuses those of the others."""

from __future__ import annotations

import pytest

from patternmark import PROTEIN, Alphabet, Key, Marker, ParameterError, Profile
from patternmark.core.chain import KeyChain
from patternmark.core.schemes import SCHEMES, Blocks, Paper, Turns
from patternmark.core.secret import Secret

TOKENS = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(600)], unscored=[0])


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (Blocks, {"pattern_length": 9}),
        (Blocks, {"period": 512}),
        (Blocks, {"starts": 4}),
        (Turns, {"chain": KeyChain.alternating()}),
        (Turns, {"background": (1, 2)}),
        (Paper, {"nonces": 4}),
        (Paper, {"block": 3}),
        (Profile, {"nonces": -3}),
        (Profile, {"period": 7}),
        (Profile, {"pattern_length": 9}),
    ],
)
def test_foreign_parameters_are_refused(make: type, parameters: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(parameters))}'"):
        make(**parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Blocks(block=0), "a block has a whole number from 1 to 64, not 0"),
        (lambda: Blocks(block=65), "not 65"),
        (lambda: Blocks(block=2.0), "not 2.0"),  # type: ignore[arg-type]
        (lambda: Blocks(block=True), "not True"),
        (lambda: Blocks(nonces=0), "nonces are a whole number from 1 to 4096, not 0"),
        (lambda: Blocks(nonces=-3), "not -3"),
        (lambda: Turns(period=7), "a period is an even number"),
        (lambda: Turns(block=3), "a block is an even number that divides the period"),
        (lambda: Turns(starts=3), "starts must divide the period"),
        (lambda: Turns(nonces=0), "nonces are a whole number"),
        (lambda: Turns(nonces=2**17), "nonces are a whole number from 1 to 65536"),
        (lambda: Paper(pattern_length=0), "at least 2 keys, not 0"),
        (lambda: Paper(patterns=((0, 1),)), "pattern_length is 5, but the patterns have 2 keys"),
        (lambda: Profile(TOKENS, Blocks()), "'blocks' marks proteins, not alphabet 'tokens'"),
        (lambda: Profile(PROTEIN, Turns()), "'turns' marks text: use 'blocks'"),
        (lambda: Profile(delta=-1.0), "delta must be"),
        (lambda: Profile(delta_at="nowhere"), "delta_at must be"),  # type: ignore[arg-type]
    ],
)
def test_parameters_out_of_their_domain_are_refused(make: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()  # type: ignore[operator]


def test_every_alphabet_has_a_default() -> None:
    assert Profile().scheme == Blocks(block=3, nonces=32)
    assert Profile(TOKENS).scheme == Turns(period=512, block=128, starts=1, nonces=1)


@pytest.mark.parametrize("scheme", [Blocks(), Blocks(5, 7), Turns(), Turns(64, 2, 4, 3), Paper()])
def test_a_scheme_comes_back_from_its_tables(scheme: Blocks | Turns | Paper) -> None:
    profile = Profile(TOKENS if scheme.name == "turns" else PROTEIN, scheme)
    again = Profile.from_tables(profile.to_tables())
    assert again == profile
    assert SCHEMES[scheme.name] is type(scheme)
    assert scheme.signature.startswith(f"scheme:{scheme.name}|")


def test_parts_belong_to_the_papers_scheme(secret: Secret) -> None:
    with pytest.raises(ParameterError, match="parts belong to the paper's scheme"):
        Key.of(secret, Profile(), ["ACDEFGHIKL", "MNPQRSTVWY"])
    with pytest.raises(ParameterError, match="a key of the scheme 'blocks' has no parts"):
        _ = Key.of(secret, Profile()).partition


@pytest.mark.parametrize("nonces", [1, 5])
def test_a_payload_is_a_nonce(secret: Secret, nonces: int) -> None:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=nonces)))
    with pytest.raises(ParameterError, match="no payload" if nonces == 1 else "from 0 to 4, not 5"):
        Marker(key, payload=5)
