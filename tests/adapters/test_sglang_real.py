"""Two algorithms of SGLang that have no copy here: with insertions and deletions, and renoising."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patternmark import Detector, Marker, ParameterError
from patternmark.core.keyfile import save_key
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")
package = pytest.importorskip("sglang.srt.dllm.algorithm", reason="sglang is not installed")

from patternmark.adapters.sglang import marked_algorithm  # noqa: E402
from tests.adapters.stack_copies import BLOCK, Server  # noqa: E402
from tests.adapters.test_sglang import served_by  # noqa: E402
from tests.adapters.tiny_models import (  # noqa: E402
    BOS,
    EOS,
    MASK,
    NO_TOKENS,
    NUM_COLUMNS,
    SPECIAL,
    prompts,
    words_key,
)

CANVAS = 32


def test_sglang_runs_the_plugin(
    secret: Secret, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Found as any installed plugin is, by the file that an installation would leave."""
    from sglang.srt import plugins

    folder = tmp_path / "some_plugin-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: some-plugin\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[sglang.srt.plugins]\nmarks = patternmark.adapters.sglang:plugin\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_plugins_loaded", False)
    plain = dict(package.algo_name_to_cls)
    monkeypatch.setattr(package, "algo_name_to_cls", dict(plain))
    monkeypatch.setenv("PATTERNMARK_KEY", str(tmp_path / "text.key"))
    with pytest.raises(SystemExit, match="this key file does not exist"):
        plugins.load_plugins()
    save_key(words_key(secret), tmp_path / "text.key")
    monkeypatch.setattr(plugins, "_plugins_loaded", False)
    plugins.load_plugins()
    for name, algorithm in plain.items():
        made = package.get_algorithm_cls(name)
        assert made is not algorithm
        assert issubclass(made, algorithm)


def config(name: str, **others: Any) -> Any:
    from sglang.srt.dllm.config import DllmConfig

    return DllmConfig(name, {"threshold": 0.5}, max_running_requests=4, **others)


def test_blocks_with_insertions_and_deletions_are_marked(secret: Secret) -> None:
    """Places are those of the block as it is at each step, so the last steps mend what moved."""
    key = words_key(secret, scheme="turns")
    made = marked_algorithm(package.algo_name_to_cls["JointThresholdInDel"], served_by(key))
    own = config(
        made.__name__, block_size=BLOCK, mask_id=MASK, delete_token_id=BOS, split_token_id=EOS
    )
    server = Server(made(own), {"a": prompts(1, 21)[0].tolist()})
    with torch.no_grad():
        server.model.cls.predictions.bias[[BOS, EOS]] = 4.5
    moved = []
    edit = server.algorithm._apply_edit_operations
    server.algorithm._apply_edit_operations = lambda *args: moved.append(1) or edit(*args)
    while server.done_prefill["a"] < 144:
        server.run_block(["a"])
    written = server.written("a", 120)
    assert moved
    assert not np.isin(written, [*SPECIAL, *NO_TOKENS]).any()
    assert Detector(key).detect(written).log10_p < -6


class Runner:
    """A model runner whose logits are drawn once for each canvas."""

    def __init__(self) -> None:
        text = SimpleNamespace(vocab_size=NUM_COLUMNS)
        self.model_config = SimpleNamespace(hf_config=SimpleNamespace(text_config=text))
        table = torch.nn.Embedding(NUM_COLUMNS, 8)
        table.embed_scale = 1.0  # type: ignore[assignment]
        self.model = SimpleNamespace(
            get_input_embeddings=lambda: table,
            prepare_dllm_input_embeds=lambda ids, signal: table(ids),
        )
        self.generator = torch.Generator().manual_seed(3)
        self.draw()

    def draw(self) -> None:
        self.logits = torch.randn(CANVAS, NUM_COLUMNS, generator=self.generator)
        self.logits[:, [*SPECIAL, *NO_TOKENS]] = -30.0

    def forward(self, batch: Any, pp_proxy_tensors: Any = None) -> Any:
        output = SimpleNamespace(full_logits=self.logits)
        return SimpleNamespace(logits_output=output, can_run_graph=False)


def gemma(key: Any, delta: float | None = None) -> Any:
    made = marked_algorithm(package.algo_name_to_cls["Gemma4Renoise"], served_by(key, delta))
    return made(config("Gemma4Renoise", block_size=CANVAS, mask_id=-1))


@pytest.mark.parametrize("delta", [3.0, 0.0])
def test_renoised_canvases_are_marked(secret: Secret, delta: float) -> None:
    key = words_key(secret, scheme="turns", starts=512)
    algorithm, runner, written = gemma(key, delta), Runner(), []
    for canvas in range(5):
        runner.draw()
        start = 13 + CANVAS * canvas  # after a prompt of 13 tokens
        batch = SimpleNamespace(
            batch_size=1,
            input_ids=torch.zeros(CANVAS, dtype=torch.long),
            positions=torch.arange(start, start + CANVAS),
            rids=["a"],
            forward_mode=SimpleNamespace(is_dllm_extend=lambda: True),
            dllm_input_preparation_state=None,
            input_embeds=None,
        )
        algorithm.run(runner, batch)
        written += batch.input_ids.tolist()
    verdict = Detector(key).detect(np.array(written))
    assert (verdict.log10_p < -6) == (delta > 0)
    keys = Marker(key).key_sequence(len(written), "a")
    promoted = key.schedule.promoted_rows(keys)[np.arange(len(written)), written]
    assert (promoted.mean() > 0.9) == (delta > 0)


def test_a_tempered_key_is_refused_where_temperatures_change(secret: Secret) -> None:
    with pytest.raises(ParameterError, match="take a key with delta_at = 'logits'"):
        gemma(words_key(secret, delta_at="tempered"))
