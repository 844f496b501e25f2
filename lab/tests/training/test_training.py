"""Real trainings of a small network: it learns, and goes on where it was, to the bit."""

import copy
import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lab.tests.training.small import SETTINGS, codec, corpus
from patternmark.errors import ParameterError, PatternmarkError
from patternmark.models.tensor_file import CheckpointError
from patternmark.translation.bleu import bleu
from patternmark.translation.checkpoint import load_model, load_tensors
from patternmark_lab.training.saving import save_tensors as save
from patternmark_lab.training.trainer import Settings, Training, Until
from patternmark_lab.training.translating import translate_with
from tests.translation.small import PAIRS, config


def after(number: int) -> Until:
    """End a run after so many steps."""
    taken = itertools.count()
    return Until(stop=lambda: next(taken) >= number)


def weights(training: Training) -> dict[str, torch.Tensor]:
    return dict(training.model.named_parameters())


def equal(first: Training, second: Training) -> bool:
    one, two = weights(first), weights(second)
    return all(torch.equal(one[name], two[name]) for name in one | two)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True], ids=["CMLM", "teacher"])
def test_what_is_learned_is_translated(causal: bool, tmp_path: Path) -> None:
    settings = Settings(steps=160, batch_tokens=512, warmup=20, lr=1e-2, label_smoothing=0.0)
    rows: list[dict[str, float]] = []
    network = replace(config(causal=causal), width=64, hidden=128, dropout=0.0)
    training = Training(tmp_path, network, settings)
    assert training.run(corpus(), report=rows.append)
    assert [row["step"] for row in rows] == [100, 160]
    assert rows[1]["loss"] < 0.3 * rows[0]["loss"]
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    ids = codec().encode_batch([source for source, _ in PAIRS])
    found = codec().decode_batch(translate_with(load_model(tmp_path), ids, 4096))
    assert bleu(found, [target for _, target in PAIRS]).score > 60.0


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True], ids=["CMLM", "teacher"])
def test_many_runs_end_as_one_does(causal: bool, tmp_path: Path) -> None:
    whole = Training(tmp_path / "whole", config(causal=causal), SETTINGS)
    assert whole.run(corpus())
    assert whole.progress.epoch >= 1  # batches of an epoch are left off in its middle, too
    for number in (1, 4, 99):
        torch.rand(number)  # what others draw has no say
        parts = Training(tmp_path / "parts", config(causal=causal), SETTINGS, shard_bytes=60_000)
        finished = parts.run(corpus(), after(number))
        assert finished == (number == 99)
    assert equal(whole, parts)
    assert replace(whole.progress, seconds=0.0) == replace(parts.progress, seconds=0.0)
    assert [(run["from"], run["to"]) for run in parts.runs] == [(0, 1), (1, 5), (5, 12)]


def test_others_random_numbers_are_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    Training(tmp_path, config(), SETTINGS).run(corpus(), after(2))
    assert torch.equal(torch.rand(3), expected)


def test_another_seed_is_another_training(tmp_path: Path) -> None:
    made = [Training(tmp_path / str(s), config(), replace(SETTINGS, seed=s)) for s in (1, 2)]
    assert not equal(*made)


@pytest.mark.slow
def test_a_kill_at_any_file_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patternmark.io import files

    whole = Training(tmp_path / "whole", config(), SETTINGS)
    whole.run(corpus())
    begun = tmp_path / "begun"
    Training(begun, config(), SETTINGS, shard_bytes=60_000).run(corpus(), after(3))
    replaced = files.os.replace
    for number in itertools.count():
        folder = tmp_path / f"killed-{number}"
        shutil.copytree(begun, folder)
        left, saved = itertools.count(-number), dict[str, bool]()

        def kill(*names: str, left: Any = left, saved: dict[str, bool] = saved) -> None:
            if next(left) >= 0:
                raise KeyboardInterrupt
            replaced(*names)
            saved[Path(names[1]).name] = True

        going_on = Training(folder, config(), SETTINGS, shard_bytes=60_000)
        monkeypatch.setattr(files.os, "replace", kill)
        try:
            finished = going_on.run(corpus(), after(4))
        except KeyboardInterrupt:
            finished = None
        monkeypatch.setattr(files.os, "replace", replaced)
        again = Training(folder, config(), SETTINGS, shard_bytes=60_000)
        assert again.step == (7 if "training.json" in saved else 3)
        assert finished is None or again.step == 7
        again.run(corpus())
        assert equal(whole, again)
        assert len(list(folder.glob("checkpoint-*.index.json"))) == 1
        if finished is not None:
            break
    assert number > 5


def test_a_kill_at_any_file_of_the_first_save_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patternmark.io import files

    replaced = files.os.replace
    for number in itertools.count():
        folder, left = tmp_path / f"killed-{number}", itertools.count(-number)

        def kill(*names: str, left: Any = left) -> None:
            if next(left) >= 0:
                raise KeyboardInterrupt
            replaced(*names)

        monkeypatch.setattr(files.os, "replace", kill)
        try:
            is_whole = Training(folder, config(), SETTINGS).run(corpus(), after(1)) is not None
        except KeyboardInterrupt:
            is_whole = False
        monkeypatch.setattr(files.os, "replace", replaced)
        assert Training(folder, config(), SETTINGS).step in (0, 1)  # it is not refused
        if is_whole:
            break
    assert number > 2


def test_what_a_killed_save_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".checkpoint-00000099.safetensors.unfinished"
    left.write_bytes(b"half of a")
    Training(tmp_path, config(), SETTINGS).run(corpus(), after(1))
    assert not left.exists()


def test_checkpoints_are_written_while_a_run_goes_on(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(done: float) -> None:
        file = tmp_path / "training.json"
        seen.append(json.loads(file.read_text())["progress"]["step"] if file.exists() else 0)

    Training(tmp_path, config(), SETTINGS).run(
        corpus(), Until(save_every=0.0, stop=after(4).stop), progress=look
    )
    assert seen == [0, 1, 2, 3]
    assert [file.name for file in tmp_path.glob("checkpoint-*")] == [
        "checkpoint-00000004.safetensors"
    ]


@pytest.mark.slow
def test_minutes_are_of_all_runs_together(tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=0, minutes=1.5 / 60.0)
    first = Training(tmp_path, config(), settings)
    assert not first.run(corpus(), Until(minutes=0.5 / 60.0))
    second = Training(tmp_path, config(), settings)
    assert second.progress == first.progress
    assert first.progress.seconds > 0.5
    assert second.run(corpus())
    assert second.progress.seconds >= 1.5
    assert second.step > first.step > 0
    runs = [60.0 * run["minutes"] for run in second.runs]
    assert runs[0] == pytest.approx(first.progress.seconds)
    assert sum(runs) == pytest.approx(second.progress.seconds)


def test_a_run_of_no_minutes_learns_nothing(tmp_path: Path) -> None:
    training = Training(tmp_path, config(), SETTINGS)
    assert not training.run(corpus(), Until(minutes=0.0))
    assert training.step == 0
    assert not (tmp_path / "training.json").exists()


def test_a_longer_training_goes_on_from_a_finished_one(tmp_path: Path) -> None:
    assert Training(tmp_path, config(), replace(SETTINGS, steps=3)).run(corpus())
    longer = Training(tmp_path, config(), SETTINGS)
    assert (longer.step, longer.changes) == (3, [])
    assert longer.run(corpus())
    assert longer.step == 12


def test_another_network_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    Training(tmp_path, config(), SETTINGS).run(corpus(), after(1))
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
    other = replace(config(), hidden=32, causal=True)
    with pytest.raises(ParameterError, match="hidden was 64, now 32, causal was False, now True"):
        Training(tmp_path, other, SETTINGS)
    with pytest.raises(CheckpointError, match=r"checkpoint-00000001\.safetensors: the file is"):
        Training(tmp_path, config(), SETTINGS)


def test_other_settings_are_said(tmp_path: Path) -> None:
    Training(tmp_path, config(), SETTINGS).run(corpus(), after(1))
    changed = replace(SETTINGS, lr=1e-3, steps=50)
    training = Training(tmp_path, replace(config(), dropout=0.0), changed)
    assert training.changes == ["lr was 0.005, now 0.001"]


def test_a_model_without_its_training_is_not_overwritten(tmp_path: Path) -> None:
    Training(tmp_path, config(), SETTINGS).run(corpus(), after(1))
    (tmp_path / "training.json").unlink()
    with pytest.raises(ParameterError, match=r"holds a model but no training\.json"):
        Training(tmp_path, config(), SETTINGS)


def test_a_checkpoint_that_lacks_something_is_named(tmp_path: Path) -> None:
    Training(tmp_path, config(), SETTINGS).run(corpus(), after(1))
    file = tmp_path / "checkpoint-00000001.safetensors"
    whole = load_tensors(file)
    name = "encoder.0.up.weight/momentum"
    save(file, {key: tensor for key, tensor in whole.items() if key != name})
    with pytest.raises(CheckpointError, match=r"state of 'encoder\.0\.up\.weight' is missing"):
        Training(tmp_path, config(), SETTINGS)
    save(file, whole | {name: torch.zeros(2, 2)})
    with pytest.raises(CheckpointError, match="momentum' does not fit the network"):
        Training(tmp_path, config(), SETTINGS)
    (tmp_path / "training.json").write_text('{"step": 4}')
    with pytest.raises(CheckpointError, match=r"training\.json: was not written by a training"):
        Training(tmp_path, config(), SETTINGS)


def test_a_loss_that_is_no_number_does_not_replace_a_checkpoint(tmp_path: Path) -> None:
    Training(tmp_path, config(), SETTINGS).run(corpus(), after(2))
    broken = Training(tmp_path, config(), replace(SETTINGS, lr=float("inf")))
    with pytest.raises(PatternmarkError, match=r"not a number at step \d+.*lower learning rate"):
        broken.run(corpus())
    assert Training(tmp_path, config(), SETTINGS).step == 2


def test_the_log_has_no_rows_of_steps_that_were_lost(tmp_path: Path) -> None:
    training = Training(tmp_path, config(), SETTINGS)
    training.run(corpus(), after(2))
    training.log({"step": 900, "loss": 1.0})
    with (tmp_path / "log.jsonl").open("a") as stream:
        stream.write('{"step": 10')
    Training(tmp_path, config(), SETTINGS).run(corpus(), after(2))
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [2, 4]


def test_the_rate_rises_stays_and_falls() -> None:
    settings = Settings(steps=1000, lr=1.0, warmup=100, decay=0.4)
    rates = [settings.rate(step, settings.done(step, 0.0)) for step in range(1000)]
    assert rates[0] == 0.01
    assert rates[99:601] == [1.0] * 502
    assert rates[800] == pytest.approx(0.5)
    assert 0.0 < rates[-1] < 0.01


def test_a_copy_in_half_precision_learns_the_same(tmp_path: Path) -> None:
    # What a GPU does: the copy computes, the network itself sums up many small steps.
    whole, halved = (Training(tmp_path / name, config(), SETTINGS) for name in ("a", "b"))
    halved._network = copy.deepcopy(halved.model).bfloat16()
    losses: list[list[float]] = []
    for training in (whole, halved):
        rows: list[dict[str, float]] = []
        training.run(corpus(), report=rows.append)
        losses.append([row["loss"] for row in rows])
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    for own, half in zip(halved.model.parameters(), halved._network.parameters(), strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own.bfloat16(), half, rtol=0, atol=0)
