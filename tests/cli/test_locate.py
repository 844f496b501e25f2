from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from patternmark import Key, Profile, load_key
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.io.dna import frames_of, looks_like_dna
from patternmark.null.local import LocalNull
from patternmark.search.locate import Locator, cut_at_valleys
from tests.conftest import Outcome
from tests.synthetic import letters, marked, plain, write_fasta

Run = Callable[..., Outcome]
CODONS = {
    "A": "GCT", "C": "TGT", "D": "GAT", "E": "GAA", "F": "TTT", "G": "GGT", "H": "CAT",
    "I": "ATT", "K": "AAA", "L": "CTG", "M": "ATG", "N": "AAT", "P": "CCT", "Q": "CAA",
    "R": "CGT", "S": "TCT", "T": "ACT", "V": "GTT", "W": "TGG", "Y": "TAT",
}  # fmt: skip
NEAR = 45  # residues by which an end may be missed, by a chance continuation


def to_dna(protein: str) -> str:
    return "".join(CODONS[letter] for letter in protein)


def reverse(dna: str) -> str:
    return dna.translate(str.maketrans("ACGT", "TGCA"))[::-1]


@pytest.mark.slow
def test_both_domains_of_a_fusion(
    run: Run, key_file: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    key = load_key(key_file)
    pieces = [plain(100, rng), marked(key, 200, rng), plain(220, rng), marked(key, 160, rng)]
    file = write_fasta(tmp_path / "x.fa", {"fusion": "".join(pieces), "plain": plain(300, rng)})
    found = run("locate", file, "--key", key_file, "--json")
    assert (found.status, found.err) == (0, "")
    fusion, none = found.objects
    first, second = sorted(fusion["segments"], key=lambda s: s["start"])
    places = (first["start"], first["end"], second["start"], second["end"])
    assert places == pytest.approx((100, 300, 520, 680), abs=NEAR)
    assert all(s["p_value"] <= 1e-3 for s in fusion["segments"])
    assert [s["search"] for s in fusion["segments"]] == [1, 2]
    # The second search has half as many false positives to spend, on what the first left.
    strongest, next_best = fusion["segments"]
    left = fusion["num_tokens_scored"] - (strongest["end"] - strongest["start"])
    alone = float(LocalNull().log_tail(next_best["statistic"], left))
    assert next_best["log10_p"] * np.log(10) == pytest.approx(alone + np.log(2), abs=0.2)
    assert (none["segments"], none["prediction"]) == ([], False)
    table = run("locate", file, "--key", key_file).out
    assert f"{first['start'] + 1}-{first['end']}" in table  # from 1, inclusive
    assert "2 marked segments" in table


def test_a_lone_stretch_has_the_p_value_of_the_detector(key: Key, rng: np.random.Generator) -> None:
    sequence = plain(50, rng) + marked(key, 120, rng)
    found = Locator(key).in_protein(key.profile.alphabet.encode(sequence))
    verdict = Detector(key, "local").detect(sequence)
    assert (found.segments[0].start, found.segments[0].end) == verdict.segment
    assert found.segments[0].log_p == pytest.approx(verdict.log10_p * np.log(10))
    assert found.log_p == pytest.approx(found.segments[0].log_p)


def test_a_block_key_is_located_too(secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=1)))
    locator, errors = Locator(key), []
    for _ in range(12):
        sequence = plain(80, rng) + marked(key, 220, rng) + plain(80, rng)
        (segment,) = locator.in_protein(key.profile.alphabet.encode(sequence)).segments
        errors += [abs(segment.start - 80), abs(segment.end - 300)]
    assert np.median(errors) <= 10  # chance lets a stretch run on a little
    assert max(errors) < 80


def test_stretches_of_block_keys_in_chains_and_frames(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=4)))
    locator = Locator(key)
    rates = np.where(key.schedule.promoted_rows(key.schedule.keys(1, 2, 200))[:, :20], 0.8, 0.2)
    law = np.cumsum(rates, axis=1)  # the coins of the second chain of a record
    drawn = (rng.random((200, 1)) * law[:, -1:] > law).sum(axis=1)
    second = plain(40, rng) + letters(drawn) + plain(30, rng)
    found = locator.in_protein(key.profile.alphabet.encode(f"{plain(90, rng)}/{second}"))
    (segment,) = found.segments
    assert segment.chain == 1
    assert (segment.start, segment.end) == pytest.approx((40, 240), abs=NEAR)
    # The first search asks what `detect` asks.
    inside = plain(40, rng) + marked(key, 200, rng) + plain(30, rng)
    lone = locator.in_protein(key.profile.alphabet.encode(inside))
    verdict = Detector(key).detect(inside)
    assert lone.log_p == pytest.approx(verdict.log10_p * np.log(10))
    assert lone.segments[0].log_p == pytest.approx(lone.log_p)
    dna = "A" + to_dna(inside) + "CC"
    (backward,) = locator.in_dna(reverse(dna)).segments
    assert backward.frame == -2
    assert len(dna) - backward.end == 1 + 3 * lone.segments[0].start
    assert backward.log_p == pytest.approx(lone.log_p + np.log(6))


def test_both_domains_of_a_fusion_of_block_marks(secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=4)))
    pieces = [marked(key, 200, rng), plain(120, rng), marked(key, 160, rng)]
    found = Locator(key).in_protein(key.profile.alphabet.encode("".join(pieces)))
    first, second = sorted(found.segments, key=lambda segment: segment.start)
    places = (first.start, first.end, second.start, second.end)
    assert places == pytest.approx((0, 200, 320, 480), abs=NEAR)
    assert [segment.search for segment in found.segments] == [1, 2]
    unmarked = [key.profile.alphabet.encode(plain(200, rng)) for _ in range(8)]
    assert not any(Locator(key).in_protein(symbols).segments for symbols in unmarked)


def test_chains_are_named(
    run: Run, key_file: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    chains = [plain(90, rng), plain(30, rng) + marked(load_key(key_file), 150, rng), plain(70, rng)]
    file = write_fasta(tmp_path / "x.fa", {"complex": ":".join(chains)})
    table = run("locate", file, "--key", key_file).out.splitlines()
    name, place, chain, *_ = table[1].split()
    assert (name, chain) == ("complex", "2")
    first, last = map(int, place.split("-"))
    assert (first, last) == pytest.approx((31, 180), abs=30)
    assert 1 <= first < last <= 180


def test_dna_is_read_in_six_frames(
    run: Run, key_file: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    protein = plain(60, rng) + marked(load_key(key_file), 150, rng) + plain(20, rng)
    dna = "A" + to_dna(protein) + "CC"
    sequences = {"forward": dna, "backward": reverse(dna), "rna": dna.replace("T", "U").lower()}
    file = write_fasta(tmp_path / "x.fa", sequences)
    forward, backward, rna = run("locate", file, "--key", key_file, "--json").objects
    (one,), (other,) = forward["segments"], backward["segments"]
    assert (one["frame"], other["frame"]) == (2, -2)
    assert (one["start"], one["end"]) == pytest.approx((181, 631), abs=3 * NEAR)
    assert (one["start"] - 1) % 3 == 0
    assert (other["start"], other["end"]) == (len(dna) - one["end"], len(dna) - one["start"])
    assert rna["segments"] == forward["segments"]
    assert (forward["kind"], forward["length"]) == ("dna", len(dna))
    # The same stretch as in the protein, at six times its p-value.
    file = write_fasta(tmp_path / "p.fa", {"p": protein})
    (same,) = run("locate", file, "--key", key_file, "--json").objects[0]["segments"]
    assert (one["start"], one["end"]) == (1 + 3 * same["start"], 1 + 3 * same["end"])
    assert one["p_value"] == pytest.approx(6 * same["p_value"], rel=0.2)


def test_a_mark_that_shows_on_both_strands_is_reported_once(
    secret: Secret, rng: np.random.Generator
) -> None:
    # With these parts and codons, what a codon reads as backwards is in the same part.
    key = Key.of(secret, Profile(scheme=Paper()), ["ASRPTCGWHM", "DINVYEFKLQ"])
    dna = to_dna(plain(30, rng) + marked(key, 150, rng))
    assert Detector(key, "local").detect(next(islice(frames_of(dna), 3, None)).protein).prediction
    assert len(Locator(key).in_dna(dna).segments) == 1


def test_frames_and_the_way_back() -> None:
    dna = "ATGAAATTTGGGCC"
    for frame in frames_of(dna):
        for residue, letter in enumerate(frame.protein):
            start, end = frame.nucleotides(residue, residue + 1)
            codon = dna[start:end] if frame.number > 0 else reverse(dna[start:end])
            assert next(frames_of(codon)).protein == letter


def test_dna_is_told_by_its_letters(run: Run, key_file: Path, tmp_path: Path) -> None:
    assert looks_like_dna("ACGTN" * 10)
    assert not looks_like_dna("ACGT")
    assert not looks_like_dna("ACGTE" * 10)
    file = write_fasta(tmp_path / "x.fa", {"a": "GATTACA" * 9, "b": "GATTACAW" * 9, "c": "GATEACA"})
    told = run("locate", file, "--key", key_file, "--json").objects
    assert [record["kind"] for record in told] == ["dna", "protein", "protein"]
    protein = run("locate", file, "--key", key_file, "--protein", "--json").objects
    assert [record["kind"] for record in protein] == ["protein"] * 3
    stated = run("locate", file, "--key", key_file, "--dna", "--json")
    assert [record["kind"] for record in stated.objects] == ["dna", "dna"]
    assert "record 3 (c): character 'E' at position 4 is not a nucleotide" in stated.err


def test_valleys_cut_only_where_they_are_deep() -> None:
    gains = np.array([2] * 50 + [-3] * 7 + [2] * 50 + [-3] * 12 + [2] * 30)
    assert cut_at_valleys(gains) == (0, 107)


def test_nothing_to_locate(run: Run, key_file: Path, tmp_path: Path) -> None:
    file = write_fasta(tmp_path / "x.fa", {"x": "XXXX"})
    refused = run("locate", file, "--key", key_file)
    assert refused.status == 2
    assert "record 1 (x): nothing to score" in refused.err
