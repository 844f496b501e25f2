"""The page of `patternmark bench text-validity`."""

from __future__ import annotations

from typing import Any

from patternmark.intervals import rate_interval
from patternmark_lab.bench.text_validity import LEVELS, P_VALUES, SCHEMES, TOLERATED


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    lines = [
        "# Are the p-values valid for text?",
        "",
        f"Made by `patternmark bench text-validity FOLDER --tokenizer FILE --keys "
        f"{result['num_keys']} --texts {result['per_key']} -o docs/results` with patternmark "
        f"{result['version']}, Python {result['python']}, numpy {result['numpy']}: tokens of "
        f"{result['alphabet']} ({result['num_tokens']:,}), {result['num_keys']} fresh keys of each "
        f"scheme. Each key judges up to {result['per_key']} texts of every source, and fewer long "
        "texts. The table of the null was made from other documents.",
        "",
        "Numbers are the measured rate divided by the nominal rate, with a 95 % interval "
        "(Clopper-Pearson; pairs of one key or one text are not quite independent). In **bold** "
        f"numbers the whole interval is above {TOLERATED}. `p_any` is the bound that is proved for "
        "any text; keys of the paper's scheme have none.",
        "",
        *_summary(result),
    ]
    for scheme in SCHEMES:
        for kind, sources in result["kinds"].items():
            rows = [r for r in result["rates"] if r["scheme"] == scheme and r["source"] in sources]
            if rows:
                lines += ["", f"## {scheme}: {kind}", "", *_table(rows, scheme)]
    return "\n".join(lines) + "\n"


def _names(scheme: str) -> tuple[str, ...]:
    return P_VALUES if scheme == "turns" else P_VALUES[:1]


def _summary(result: dict[str, Any]) -> list[str]:
    """Return the rates of all sources of a kind together, and a list of the rates that are high."""
    pooled = [
        row
        for scheme in SCHEMES
        for kind, sources in result["kinds"].items()
        if (row := _pooled(result["rates"], scheme, kind, sources))
    ]
    compared, found = 0, []
    for row in result["rates"]:
        for name in _names(row["scheme"]):
            for rate, level in zip(row["rates"][name], LEVELS, strict=True):
                compared += 1
                if rate["interval"][0] > TOLERATED * level:
                    found.append(f"- {row['scheme']}, {row['source']}: `{name}` at {level:g}")
    said = (
        f"Of {compared:,} rates, {len(found)} have an interval that is above {TOLERATED} times the "
        "nominal rate. If all rates were exactly nominal, up to one in forty would by chance."
    )
    return [*_table(pooled, "turns"), "", said, *([""] if found else []), *found]


def _pooled(
    rates: list[dict[str, Any]], scheme: str, kind: str, sources: list[str]
) -> dict[str, Any] | None:
    """Return the row of all sources of a kind together; None if there are none."""
    own = [row for row in rates if row["scheme"] == scheme and row["source"] in sources]
    if not own:
        return None
    pairs = sum(row["pairs"] for row in own)
    together = {}
    for name in P_VALUES:
        hits = [sum(row["rates"][name][i]["hits"] for row in own) for i in range(len(LEVELS))]
        together[name] = [
            {"hits": count, "interval": list(rate_interval(count, pairs))} for count in hits
        ]
    source = f"{scheme}: {kind}, all together"
    return {"scheme": scheme, "source": source, "pairs": pairs, "rates": together}


def _table(rows: list[dict[str, Any]], scheme: str) -> list[str]:
    names = _names(scheme)
    heads = [f"{name} at {level:g}" for name in names for level in LEVELS]
    lines = [
        f"| texts | pairs | {' | '.join(heads)} |",
        f"|---|---:|{'---:|' * len(heads)}",
    ]
    for row in rows:
        cells = [
            _cell(rate, row["pairs"], level) if name in _names(row["scheme"]) else ""
            for name in names
            for rate, level in zip(row["rates"][name], LEVELS, strict=True)
        ]
        lines.append(f"| {row['source']} | {row['pairs']:,} | {' | '.join(cells)} |")
    return lines


def _cell(rate: dict[str, Any], pairs: int, level: float) -> str:
    low, high = (bound / level for bound in rate["interval"])
    cell = f"{rate['hits'] / pairs / level:.2f} ({low:.2f} to {high:.2f})"
    return f"**{cell}**" if low > TOLERATED else cell
