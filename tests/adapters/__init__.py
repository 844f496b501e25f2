"""Small structures cut out of a real one."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from string import ascii_letters


def write_chains(
    path: Path,
    chains: Mapping[str, tuple[str, Sequence[int]]],
    labels: Mapping[str, Mapping[int, str]] | None = None,
) -> Path:
    """Write residues of 2GTL as PDB: {"A": ("D", range(8, 60))} takes them from its chain D.

    `labels` renumbers: {"A": {8: "-3", 9: "1A"}}.
    """
    import gemmi

    package = find_spec("tmtools")
    assert package is not None
    assert package.origin is not None
    source = gemmi.read_pdb(str(Path(package.origin).parent / "data" / "2gtl.pdb"))
    model = gemmi.Model(1)
    for name, (origin, numbers) in chains.items():
        chain = gemmi.Chain(name)
        for residue in source[0][origin]:
            if residue.het_flag != "H" and residue.seqid.num in numbers:
                if new := (labels or {}).get(name, {}).get(residue.seqid.num):
                    number = new.rstrip(ascii_letters)
                    residue.seqid = gemmi.SeqId(int(number), new[len(number) :] or " ")
                chain.add_residue(residue)
        model.add_chain(chain)
    structure = gemmi.Structure()
    structure.add_model(model)
    structure.write_minimal_pdb(str(path))
    return path
