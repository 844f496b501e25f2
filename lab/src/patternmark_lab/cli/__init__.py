"""The lab's commands: `patternmark bench` and `patternmark train`."""

from patternmark_lab.cli import (
    bench_backbone,
    bench_exchanges,
    bench_oracle,
    bench_paper,
    bench_scale,
    bench_scan,
    bench_text,
    bench_validity,
    train_distil,
    train_structure,
)
from patternmark_lab.cli.bench import bench_app
from patternmark_lab.cli.train import train_app

__all__ = ["bench_app", "train_app"]
