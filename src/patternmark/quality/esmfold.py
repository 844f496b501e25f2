"""pLDDT: how confident ESMFold is of the fold that it predicts, if its weights are available.

The weights (`facebook/esmfold_v1`, 8 GB) are not part of this package. You give a folder with
config.json and the weights, as transformers saves them. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from patternmark.errors import PatternmarkError

_CA = 1  # index among the 37 atoms of a residue
_WEIGHTS = ("*.safetensors", "*.bin")


class Folder:
    """ESMFold, read from a local folder."""

    def __init__(self, network: Any) -> None:
        self._network = network.eval()

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> Folder:
        """Read `EsmForProteinFolding` from a folder; PatternmarkError says what is missing."""
        try:
            from safetensors import SafetensorError  # noqa: PLC0415  # comes with transformers
            from transformers import AutoConfig, EsmForProteinFolding  # noqa: PLC0415  # an extra
        except ImportError:
            raise PatternmarkError("pLDDT needs transformers: pip install transformers") from None
        has_weights = any(any(folder.glob(pattern)) for pattern in _WEIGHTS)
        if not (folder / "config.json").is_file() or not has_weights:
            raise PatternmarkError(
                f"{folder}: there is no ESMFold here: give a folder with config.json and the "
                "weights. Get it on a computer with a network: "
                "huggingface_hub.snapshot_download('facebook/esmfold_v1', local_dir=FOLDER)"
            )
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            if not getattr(config, "is_folding_model", False):
                raise PatternmarkError(f"{folder}: this is another model: give ESMFold's folder")
            read: Any = EsmForProteinFolding.from_pretrained
            found, facts = read(folder, local_files_only=True, output_loading_info=True)
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise PatternmarkError(f"{folder}: cannot be read as ESMFold: {reason}") from None
        # transformers fills missing tensors with random numbers, and folds would be meaningless.
        lacking = sorted(facts["missing_keys"])
        if lacking:
            raise PatternmarkError(
                f"{folder}: {len(lacking)} tensors are missing, the first is {lacking[0]!r}: the "
                "files are incomplete; download them again"
            )
        return cls(found.to(device))

    def plddt(
        self, sequences: Sequence[str], progress: Callable[[int], object] = lambda done: None
    ) -> list[NDArray[np.float32]]:
        """Return the pLDDT of each residue's CA, 0 to 100: [L] for each chain.

        Chains are folded one by one, because each needs much of a GPU's memory.
        """
        found = []
        for sequence in sequences:
            with torch.inference_mode():
                output = self._network.infer([sequence])
            found.append(100.0 * output["plddt"][0, :, _CA].float().cpu().numpy())
            progress(1)
        return found
