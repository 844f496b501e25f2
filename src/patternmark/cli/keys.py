"""`patternmark keygen` and `patternmark key`: make, show, export and derive keys."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from patternmark.cli.options import (
    EXPERT,
    MARK,
    AllowOpenKey,
    App,
    Block,
    Json,
    NewDelta,
    Nonces,
    option,
    output_file,
)
from patternmark.cli.output import Verbose, cell, results, say, warn
from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND, Alphabet
from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.keyfile import load_key, save_key
from patternmark.core.partition import MASS_TOLERANCE
from patternmark.core.profile import Profile, default_delta
from patternmark.core.promote import DeltaAt
from patternmark.core.schemes import (
    DEFAULT_PATTERN_LENGTH,
    Blocks,
    Paper,
    Scheme,
    Turns,
    default_scheme,
)
from patternmark.errors import ParameterError, SequenceError
from patternmark.io.bounded import parse_json, read_text
from patternmark.io.vocabulary import parse_alphabet, read_background

key_app = App(
    help="Show a key's public parameters, export them, or derive sub-keys.", no_args_is_help=True
)

# The options of each scheme; those of other schemes are errors.
_OPTIONS = {
    Blocks.name: ("block", "nonces"),
    Turns.name: ("period", "block", "starts", "nonces"),
    Paper.name: ("parts", "num_keys", "transition", "initial", "m", "patterns", "background"),
}

KeyArgument = Annotated[Path, typer.Argument(metavar="KEY", help="A key file.")]


def keygen(
    output: Annotated[Path, output_file("The key file to write.")],
    alphabet: Annotated[
        str,
        option(
            MARK,
            metavar="NAME",
            help="protein; cmlm-de-en, the built-in tokenizer; tokenizer:FILE or a folder with "
            "one; mask-predict:FILE, a fairseq dictionary.",
        ),
    ] = "protein",
    scheme: Annotated[
        str | None,
        option(
            MARK,
            metavar="NAME",
            help="blocks (default for proteins), turns (default for text), or paper: as "
            "published, easily broken.",
        ),
    ] = None,
    delta: NewDelta = None,
    nonces: Nonces = None,
    block: Block = None,
    period: Annotated[
        int | None,
        option(EXPERT, metavar="N", help="turns: length of a schedule before it repeats."),
    ] = None,
    starts: Annotated[
        int | None,
        option(EXPERT, metavar="N", help="turns: places in a schedule where a text can begin."),
    ] = None,
    delta_at: Annotated[
        str,
        option(
            EXPERT,
            metavar="NAME",
            help="Where delta is added: logits (before temperature) or tempered.",
        ),
    ] = "logits",
    unscored: Annotated[
        str,
        option(EXPERT, metavar="LIST", help="More tokens that are never scored, by commas."),
    ] = "",
    num_keys: Annotated[
        int | None,
        option(
            EXPERT, "--num-keys", "-l", metavar="N", help="paper: number of keys, used in a cycle."
        ),
    ] = None,
    parts: Annotated[
        str | None,
        option(
            EXPERT,
            metavar="LIST",
            help="paper: use this partition: ACDEFGHIKL,MNPQRSTVWY, or @FILE (for token ids a "
            "JSON list of lists).",
        ),
    ] = None,
    transition: Annotated[
        str | None,
        option(EXPERT, metavar="MATRIX", help='paper: transition matrix A: "0.1 0.9; 0.9 0.1".'),
    ] = None,
    initial: Annotated[
        str | None, option(EXPERT, metavar="LIST", help='paper: initial distribution Q: "0.5 0.5".')
    ] = None,
    m: Annotated[
        int | None, option(EXPERT, metavar="N", help="paper: length of the patterns that count.")
    ] = None,
    patterns: Annotated[
        str | None,
        option(
            EXPERT,
            metavar="LIST",
            help="paper: target patterns, 01010,10101; default: those of the chain.",
        ),
    ] = None,
    background: Annotated[
        str | None,
        option(
            EXPERT,
            metavar="NAME",
            help="paper: balance the parts by mass: natural (of amino acids), or a JSON file of "
            "weights.",
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Make a key file: a fresh 256-bit secret and all parameters of the mark.

    Example: patternmark keygen -o lab.key
    """
    symbols = parse_alphabet(alphabet, [name for name in unscored.split(",") if name])
    options = {
        "block": block, "nonces": nonces, "period": period, "starts": starts,
        "parts": parts, "num_keys": num_keys, "transition": transition, "initial": initial, "m": m,
        "patterns": patterns, "background": background,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    name = _choose_scheme(scheme, symbols, list(given))
    profile = Profile(
        alphabet=symbols,
        scheme=_MAKERS[name](given, symbols),
        delta=default_delta(symbols) if delta is None else delta,
        delta_at=cast(DeltaAt, delta_at),
    )
    key = _generated(profile, parts)
    _write_key(key, output)
    if background is not None:
        _warn_of_imbalance(key)


def _generated(profile: Profile, parts: str | None) -> Key:
    try:
        return Key.generate(profile, _parse_parts(parts))
    except (ParameterError, SequenceError) as error:
        if parts is None or not parts.startswith("@") or str(error).startswith(parts[1:]):
            raise
        raise ParameterError(f"{parts[1:]}: {error}") from None


def _choose_scheme(scheme: str | None, alphabet: Alphabet, given: list[str]) -> str:
    """Return the scheme, or choose it by the options; raise ParameterError if they do not fit."""
    if scheme is None:
        of_paper = any(name in _OPTIONS[Paper.name] for name in given)
        scheme = Paper.name if of_paper else default_scheme(alphabet).name
    check_options(scheme, given)
    return scheme


def check_options(scheme: str, given: Iterable[str]) -> None:
    """Raise ParameterError for an unknown scheme, or options of another scheme."""
    if scheme not in _OPTIONS:
        raise ParameterError(f"unknown scheme {scheme!r}: choose one of {', '.join(_OPTIONS)}")
    for name in given:
        if name not in _OPTIONS[scheme]:
            others = [other for other, names in _OPTIONS.items() if name in names]
            raise ParameterError(
                f"{_flag(name)} goes with --scheme {' or '.join(others)}, not with {scheme}, which "
                f"takes {', '.join(map(_flag, _OPTIONS[scheme]))}"
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _make_paper(given: dict[str, Any], alphabet: Alphabet) -> Scheme:
    """Return the paper's scheme with these options."""
    if "parts" in given and "background" in given:
        raise ParameterError(
            "--parts and --background both choose the partition: leave out one of them"
        )
    patterns = _parse_patterns(given.get("patterns"))
    lengths = {len(pattern) for pattern in patterns or ()}
    return Paper(
        chain=_parse_chain(
            given.get("num_keys"),
            given.get("transition"),
            given.get("initial"),
            _parse_parts(given.get("parts")),
        ),
        background=_parse_background(given.get("background"), alphabet),
        pattern_length=given.get("m", min(lengths, default=DEFAULT_PATTERN_LENGTH)),
        patterns=patterns,
    )


def _make_blocks(given: dict[str, Any], alphabet: Alphabet) -> Scheme:
    del alphabet  # the profile checks it
    return Blocks(**given)


def _make_turns(given: dict[str, Any], alphabet: Alphabet) -> Scheme:
    del alphabet
    return Turns(**given)


_MAKERS = {Blocks.name: _make_blocks, Turns.name: _make_turns, Paper.name: _make_paper}


def _write_key(key: Key, output: Path) -> None:
    save_key(key, output)
    say(f"wrote {output} (key id {key.key_id}, mode 0600). Keep it secret and keep a copy.")


@key_app.command()
def show(
    key: KeyArgument,
    as_json: Json = False,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Show a key's id and public parameters, never its secret or parts.

    Example: patternmark key show lab.key
    """
    loaded = load_key(key, allow_open=allow_open_key)
    tables = loaded.profile.to_tables()
    if as_json:
        ids = {"key_id": loaded.key_id, "commitment": loaded.commitment}
        typer.echo(json.dumps({**ids, **tables}))
        return
    table = Table(show_header=False, title=f"key {loaded.key_id}", title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    for name, fields in tables.items():
        for field, value in fields.items():
            table.add_row(f"{name}.{field}", cell(_shorten(value)))
    table.add_row("commitment", loaded.commitment or "not in this public half")
    table.add_row("parts", _describe_parts(loaded))
    table.add_row("secret", "none: public half" if loaded.secret is None else "present, hidden")
    results.print(table)


@key_app.command()
def export(
    key: KeyArgument,
    output: Annotated[Path, output_file("The public file to write.")],
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Write the public half: id and parameters, without the secret and the parts.

    Example: patternmark key export lab.key -o lab.pub
    """
    public = load_key(key, allow_open=allow_open_key).public()
    save_key(public, output)
    say(f"wrote {output} (public half of key {public.key_id})")


@key_app.command()
def derive(
    key: KeyArgument,
    id: Annotated[str, option(MARK, metavar="NAME", help="The name of the sub-key.")],
    output: Annotated[Path, output_file("The key file to write.")],
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Write the key file of a sub-key; this key can derive it again at any time.

    Example: patternmark key derive lab.key --id team-7 -o team-7.key
    """
    master = load_key(key, allow_open=allow_open_key, with_secret=True)
    _write_key(master.derive(id), output)


def _describe_parts(key: Key) -> str:
    if key.secret is None:
        return "not in a public half"
    if not key.profile.scheme.takes_parts:
        return "halves of the alphabet, derived from the secret"
    sizes = key.partition.sizes.tolist()
    origin = "derived from the secret" if key.parts is None else "adopted"
    # Without their masses, which would reveal the letters of small parts.
    return f"{len(sizes)} parts of {_shorten(sizes)} symbols, {origin}"


def _warn_of_imbalance(key: Key) -> None:
    share = key.profile.scheme.chance
    background = key.profile.to_tables()["scheme"]["background"]
    worst = float(abs(key.partition.masses(background) - share).max()) / share
    if worst > MASS_TOLERANCE:
        warn(
            f"the parts differ from equal mass by up to {worst:.0%}: no split that was tried "
            "is better balanced; use fewer keys, or more and lighter symbols"
        )


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 100 else f"{text[:80]} ... ({len(text)} characters)"


def _parse_parts(text: str | None) -> list[Any] | None:
    if text is None:
        return None
    if not text.startswith("@"):
        return text.split(",")
    file = Path(text[1:])
    try:
        content = read_text(file).strip()
        parts = parse_json(content) if content[:1] == "[" else content.split(",")
        if not all(isinstance(part, str | list) for part in parts):
            raise ValueError("a part must be a list of token ids, or letters")
        if len(parts) < 2:
            raise ValueError("a partition has at least two parts")
        return cast(list[Any], parts)
    except (OSError, ValueError) as error:
        raise ParameterError(f"{file}: cannot read parts from it: {error}") from None


def _parse_chain(
    keys: int | None, transition: str | None, initial: str | None, parts: list[Any] | None
) -> KeyChain:
    if transition is None:
        size = keys if keys is not None else len(parts or "01")
        if size < 2:
            raise ParameterError(f"a chain needs at least 2 keys, not {size}")
        chain = KeyChain.cycle(size)
        return chain if initial is None else KeyChain.of(chain.transition, _numbers(initial))
    rows = [_numbers(row) for row in transition.split(";")]
    if keys is not None and keys != len(rows):
        raise ParameterError(
            f"--num-keys {keys} does not match a transition matrix of {len(rows)} rows"
        )
    start = [1.0 / len(rows)] * len(rows) if initial is None else _numbers(initial)
    return KeyChain.of(rows, start)


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise ParameterError(f"{text!r} is not a list of numbers such as '0.5 0.5'") from None


def _parse_patterns(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    if text is None:
        return None
    if not all(word.isdecimal() for word in text.split(",")):
        raise ParameterError(f"{text!r} is not a list of patterns such as 01010,10101")
    return tuple(tuple(int(digit) for digit in word) for word in text.split(","))


def _parse_background(text: str | None, alphabet: Alphabet) -> tuple[int, ...] | None:
    if text is None:
        return None
    if text != "natural":
        return read_background(Path(text), alphabet)
    if alphabet != PROTEIN:
        raise ParameterError("--background natural is for proteins only: give a file of weights")
    return PROTEIN_BACKGROUND
