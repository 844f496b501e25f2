"""The model card of a translator: README.md, made from the facts in card.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from patternmark import __version__
from patternmark.io.files import write_json, write_text
from patternmark.translation.checkpoint import weights_sha256
from patternmark_lab.training.trainer import Training

CARD, README = "card.json", "README.md"


def card(
    training: Training,
    data: Mapping[str, Any],
    validation: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return the facts about a trained network."""
    network, progress = training.model.config, training.progress
    return {
        "patternmark": __version__,
        "weights_sha256": weights_sha256(training.folder),
        "parameters": sum(p.numel() for p in training.model.parameters()),
        "network": asdict(network),
        "training": {
            "steps": progress.step,
            "done": round(min(1.0, training.done), 4),
            "epochs": progress.epoch,
            "minutes": round(progress.seconds / 60.0, 1),
            "target_tokens_seen": progress.tokens,
            "settings": asdict(training.settings),
        },
        "data": data,
        "validation": list(validation),
        "runs": training.runs,
        "notes": list(notes),
    }


def write_card(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write card.json and README.md."""
    write_json(folder / CARD, facts)
    write_text(folder / README, render(facts))


def render(facts: Mapping[str, Any]) -> str:
    """Return the card as Markdown."""
    parts = [_head(facts), _trained(facts), _data(facts), _validation(facts), _made(facts)]
    if facts["notes"]:
        parts.append("## Licence and acknowledgement\n\n" + "\n\n".join(facts["notes"]) + "\n")
    return "\n".join(part for part in parts if part)


def _head(facts: Mapping[str, Any]) -> str:
    network = facts["network"]
    kind = (
        "An autoregressive translator, the teacher of a CMLM."
        if network["causal"]
        else "CMLM, a mask-predict translator whose translations can carry a mark."
    )
    layers = f"{network['encoder_layers']} + {network['decoder_layers']}"
    rows = [
        ("parameters", f"{facts['parameters']:,}"),
        ("layers of encoder and decoder", layers),
        (
            "width, hidden width, heads",
            f"{network['width']}, {network['hidden']}, {network['heads']}",
        ),
        ("vocabulary", f"{network['vocab']:,}"),
        ("SHA-256 of the weights", f"`{facts['weights_sha256']}`"),
        ("made with", f"patternmark {facts['patternmark']}"),
    ]
    return f"# Model card\n\n{kind}\n\n{_table(('', ''), rows)}"


def _trained(facts: Mapping[str, Any]) -> str:
    training = facts["training"]
    settings = training["settings"]
    rows = [
        ("steps", f"{training['steps']:,} ({training['done']:.0%} of what was planned)"),
        ("minutes", f"{training['minutes']:,}"),
        ("whole passes over the data", f"{training['epochs']:,}"),
        ("target tokens seen", f"{training['target_tokens_seen']:,}"),
        ("tokens of a batch", f"{settings['batch_tokens']:,}"),
        ("learning rate", f"{settings['lr']:g}"),
        ("dropout", f"{facts['network']['dropout']:g}"),
        ("seed", f"{settings['seed']}"),
    ]
    return f"## Training\n\n{_table(('', ''), rows)}"


def _data(facts: Mapping[str, Any]) -> str:
    data = facts["data"]
    rows = [(f["file"], f["role"], f"{f['pairs']:,}", f"`{f['sha256']}`") for f in data["files"]]
    table = _table(("file", "what", "pairs", "SHA-256"), rows)
    return (
        f"## Data\n\n{table}\nLearned from: {data['pairs']:,} pairs with "
        f"{data['target_tokens']:,} target tokens.\n"
    )


def _validation(facts: Mapping[str, Any]) -> str:
    if not facts["validation"]:
        return ""
    names = {"bleu": "sentences", "bleu_long": "texts of 50 to 100 tokens"}
    rows = [
        (v["file"], names.get(v["name"], v["name"]), f"{v['pairs']:,}", f"{v['bleu']:.2f}",
         f"`{v['signature']}`")
        for v in facts["validation"]
    ]  # fmt: skip
    table = _table(("file", "what", "pairs", "BLEU", "sacrebleu"), rows)
    return f"## Validation\n\n{table}"


def _made(facts: Mapping[str, Any]) -> str:
    rows = [
        (f"{run['from']:,} to {run['to']:,}", f"{run['minutes']:.1f}", run.get("device", ""),
         run.get("patternmark", ""))
        for run in facts["runs"]
    ]  # fmt: skip
    table = _table(("steps", "minutes", "device", "patternmark"), rows)
    commands = dict.fromkeys(run["command"] for run in facts["runs"] if "command" in run)
    lines = "\n".join(commands)
    return f"## How it was made\n\n```bash\n{lines}\n```\n\n{table}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "".join("| " + " | ".join(line) + " |\n" for line in escaped)
