"""SGLang's denoising algorithms: small copies of two, and the real ones where SGLang is installed.

The model runner and the batches are stand-ins: a small BERT, and the fields of `ForwardBatch` that
the algorithms read. What SGLang's scheduler does between blocks is done by `Server`.
"""

import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, ParameterError
from patternmark.core.keyfile import save_key
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.serving import ServerKey  # noqa: E402
from patternmark.adapters.sglang import marked_algorithm, plugin, register  # noqa: E402
from tests.adapters import stack_copies  # noqa: E402
from tests.adapters.stack_copies import BLOCK, Server  # noqa: E402
from tests.adapters.tiny_models import (  # noqa: E402
    MASK,
    NO_TOKENS,
    NUM_COLUMNS,
    NUM_TOKENS,
    SPECIAL,
    prompts,
    words_key,
)


def real_algorithms() -> dict[str, Any]:
    package = pytest.importorskip("sglang.srt.dllm.algorithm", reason="sglang is not installed")
    found: dict[str, Any] = package.algo_name_to_cls
    return found


def config(source: str, *, threshold: float = 0.5, fdfo: bool = False) -> Any:
    if source == "copy":
        return stack_copies.dllm_config(BLOCK, MASK, threshold)
    from sglang.srt.dllm.config import DllmConfig

    return DllmConfig(
        "JointThreshold", {"threshold": threshold}, BLOCK, MASK, 4, first_done_first_out_mode=fdfo
    )


def served_by(key: Key, delta: float | None = None) -> ServerKey:
    return ServerKey(Marker(key, delta=delta), payload_by_request=True)


def admitted(algorithm: Any, name: str, **fields: Any) -> str | None:
    own = SimpleNamespace(custom_params=fields or None)
    answer: str | None = algorithm.validate_request(SimpleNamespace(rid=name, sampling_params=own))
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LowConfidence", "JointThreshold"])
@pytest.mark.parametrize(("source", "fdfo"), [("copy", False), ("real", False), ("real", True)])
def test_blocks_are_marked_and_detected(secret: Secret, source: str, fdfo: bool, name: str) -> None:
    """Requests with prompts of any length, one of which comes later."""
    key = words_key(secret, scheme="turns", starts=4, nonces=16)
    known = stack_copies.algorithms() if source == "copy" else real_algorithms()
    found = {}
    for delta in (3.0, 0.0):
        made = marked_algorithm(known[name], served_by(key, delta))
        assert made.__name__ == name
        server = Server(
            made(config(source, fdfo=fdfo)),
            {"first": prompts(1, 21)[0].tolist(), "later": prompts(1, 16, seed=1)[0].tolist()},
        )
        for payload, request in enumerate(server.texts):
            assert admitted(made, request, patternmark_payload=payload) is None
        while server.done_prefill["first"] < 48:
            server.run_block(["first"])
        while running := [name for name, end in server.done_prefill.items() if end < 128]:
            server.run_block(running[::-1])
        texts = [server.written(request, 104) for request in server.texts]
        assert not np.isin(texts, [*SPECIAL, *NO_TOKENS]).any()
        found[delta] = Detector(key).detect_many(texts)
    assert max(verdict.log10_p for verdict in found[3.0]) < -4
    assert [verdict.payload for verdict in found[3.0]] == [0, 1]
    assert min(verdict.log10_p for verdict in found[0.0]) > -3


class Watched(stack_copies.DllmAlgorithm):
    """An algorithm that keeps the logits it is given, and fills the block with one token."""

    def step(self, forward_batch: Any, logits: Any, states: list[Any]) -> list[bool]:
        self.seen = getattr(logits, "full_logits", logits)
        forward_batch.input_ids.fill_(7)
        return [True] * forward_batch.batch_size


def watched(key: Key) -> Any:
    made = marked_algorithm(Watched, served_by(key))(stack_copies.dllm_config(BLOCK, MASK, 0.5))
    runner = Server(made, {"a": prompts(1, 21)[0].tolist(), "b": [8] * 40})
    runner.forward = lambda batch, pp_proxy_tensors: SimpleNamespace(  # type: ignore[method-assign]
        logits_output=SimpleNamespace(full_logits=torch.zeros(len(batch.input_ids), NUM_COLUMNS))
    )
    return runner


def test_places_count_from_the_first_position_to_be_denoised(secret: Secret) -> None:
    """Blocks of the prompt carry no key, and a request that was set aside goes on where it was."""
    key = words_key(secret, scheme="turns", starts=512)
    server, marker = watched(key), Marker(key)
    keys = marker.key_sequence(64, "a")
    server.run_block(["a"])
    assert not hasattr(server.algorithm, "seen")  # the first block is prompt
    server.run_block(["b", "a"])
    bias = server.algorithm.seen[:, :NUM_TOKENS].numpy()
    assert not bias[:BLOCK].any()  # all prompt, of a request whose text has not begun
    assert not bias[BLOCK : BLOCK + 5].any()
    want = marker.bias(keys[:11], temperature=1.0)
    np.testing.assert_allclose(bias[BLOCK + 5 :], want)
    server.done_prefill["a"] = 0  # its memory was taken: what it wrote is prompt to it now
    server.run_block(["a"])
    server.run_block(["a"])
    server.run_block(["a"])
    bias = server.algorithm.seen[:, :NUM_TOKENS].numpy()
    np.testing.assert_allclose(bias, marker.bias(keys[11:27], temperature=1.0))


def test_logits_may_come_in_an_output_and_must_be_whole(secret: Secret) -> None:
    """Later versions hand over the whole output."""
    server = watched(words_key(secret))
    server.run_block(["a"])
    server.run_block(["a"])
    marked = server.algorithm.seen
    batch = SimpleNamespace(
        batch_size=1, rids=["a"], positions=torch.arange(16, 32), input_ids=torch.full((16,), MASK)
    )
    output = SimpleNamespace(full_logits=torch.zeros(16, NUM_COLUMNS))
    server.algorithm.step(batch, output, [None])
    assert torch.equal(server.algorithm.seen, marked)
    assert not output.full_logits.any()
    with pytest.raises(ParameterError, match="no logits of the whole vocabulary"):
        server.algorithm.step(batch, SimpleNamespace(full_logits=None), [None])


def test_requests_beyond_the_limit_take_the_oldest_slot(secret: Secret) -> None:
    key = words_key(secret, scheme="turns", starts=512)
    server = watched(key)
    server.texts |= {f"r{i}": [8] for i in range(200)}
    server.done_prefill |= dict.fromkeys(server.texts, 0)
    server.states |= dict.fromkeys(server.texts)
    for i in range(200):
        server.run_block([f"r{i}"])
    marker = Marker(key)
    want = marker.bias(marker.key_sequence(15, "r199"), temperature=1.0)
    np.testing.assert_allclose(server.algorithm.seen[1:, :NUM_TOKENS].numpy(), want)
    assert len(server.algorithm._requests) == 68


def test_wrong_payloads_are_refused_when_a_request_comes(secret: Secret) -> None:
    key = words_key(secret, scheme="turns", nonces=4)
    made = marked_algorithm(stack_copies.LowConfidence, served_by(key))
    wrong = admitted(made, "a", patternmark_payload=4)
    assert wrong is not None
    assert "payloads from 0 to 3, not 4" in wrong
    strict = marked_algorithm(stack_copies.LowConfidence, ServerKey(Marker(key, payload=2)))
    assert "requests may not choose" in str(admitted(strict, "a", patternmark_payload=1))
    assert admitted(strict, "a") is None


@pytest.mark.parametrize("source", ["copy", "real"])
def test_register_puts_marked_algorithms_in_their_places(
    secret: Secret, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if source == "real":
        known = dict(real_algorithms())
        package = sys.modules["sglang.srt.dllm.algorithm"]
    else:
        known = stack_copies.algorithms()
        package = ModuleType("sglang.srt.dllm.algorithm")
        parent = ModuleType("sglang.srt.dllm")
        parent.algorithm = package  # type: ignore[attr-defined]
        for module in (ModuleType("sglang"), ModuleType("sglang.srt"), parent):
            monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(package, "algo_name_to_cls", dict(known), raising=False)
    monkeypatch.delenv("PATTERNMARK_KEY", raising=False)
    register()
    assert package.algo_name_to_cls == known  # no key is set: nothing happens
    save_key(words_key(secret), tmp_path / "text.key")
    monkeypatch.setenv("PATTERNMARK_KEY", str(tmp_path / "text.key"))
    register()
    marked = dict(package.algo_name_to_cls)
    assert marked.keys() == known.keys()
    for name, made in marked.items():
        assert issubclass(made, known[name])
        assert made is not known[name]
        assert made.__name__ == name
    register()
    assert package.algo_name_to_cls == marked  # once is enough


def test_a_server_that_was_told_to_mark_does_not_start_unmarked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SGLang goes on when a plugin raises, so ours ends the process."""
    monkeypatch.setenv("PATTERNMARK_KEY", str(tmp_path / "none.key"))
    for name in [name for name in sys.modules if name.startswith("sglang.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sglang", None)
    with pytest.raises(SystemExit, match="patternmark: this hook needs sglang: pip install"):
        plugin()
    parent = ModuleType("sglang.srt.dllm")
    parent.algorithm = SimpleNamespace(algo_name_to_cls={})  # type: ignore[attr-defined]
    for module in (ModuleType("sglang"), ModuleType("sglang.srt"), parent):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(SystemExit, match="this key file does not exist"):
        plugin()


def test_the_plugin_is_declared() -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    groups = declared["project"]["entry-points"]
    assert groups["sglang.srt.plugins"] == {"patternmark": f"{plugin.__module__}:plugin"}
