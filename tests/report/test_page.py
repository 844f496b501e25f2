import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.typing import NDArray

from patternmark import (
    PROTEIN,
    Alphabet,
    Detector,
    Key,
    Marker,
    ParameterError,
    Profile,
)
from patternmark.core.chain import KeyChain
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.report.page import ReportEntry, render_report
from patternmark.results import format_p
from tests.conftest import SECRET_HEX

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Check that elements nest; collect texts, ids, links and coloured pieces."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.pieces: list[tuple[str, str]] = []  # class and text of <b class=...> in sequences
        self.text = ""
        self._class = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._class = (dict(attrs).get("class") or "") if tag == "b" and "pre" in self.open else ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._class = ""

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if self._class:
            self.pieces.append((self._class, data))

    def coloured(self) -> tuple[str, list[str]]:
        """Return the letters of all sequences, and the class of each."""
        letters = "".join(text for _, text in self.pieces)
        return letters, [style for style, text in self.pieces for _ in text]


def entry(
    detector: Detector,
    sequence: str | NDArray[np.int64],
    id: str = "design-1",
    scored: NDArray[np.bool_] | None = None,
    **facts: object,
) -> ReportEntry:
    ids = detector.key.profile.alphabet.encode(sequence)
    (verdict,) = detector.detect_many([ids], [id], [scored])
    return ReportEntry(verdict, ids, scored, **facts)  # type: ignore[arg-type]


def marked_design(key: Key, length: int = 200) -> NDArray[np.int64]:
    members = key.partition.members
    keys = Marker(key).key_sequence(length, seed=1)
    return np.array([np.flatnonzero(members[k])[i % 7] for i, k in enumerate(keys)])


@pytest.fixture
def detector(key: Key) -> Detector:
    return Detector(key, "pattern", mask_repeats=False)  # the sequences here are repeats


def test_a_page_tells_all_numbers(detector: Detector, rng: np.random.Generator) -> None:
    entries = [
        entry(detector, rng.integers(0, 20, 200), "6tw7/native", native=True, score=1.2041),
        entry(detector, marked_design(detector.key), "6tw7/1", score=0.8231, recovery=0.4453),
        entry(detector, rng.integers(0, 20, 200), "6tw7/2"),
    ]
    html = render_report(detector, entries, title="Two designs")
    page = Page(html)
    for e in entries:
        v = e.verdict
        assert v.id in page.text
        row = (
            rf'<td class="num">{v.statistic:g}</td><td class="num">{v.expected_statistic:.1f}</td>'
        )
        assert f'{row}<td class="num">{format_p(v.log10_p)}</td>' in html
    for text in ("Two designs", detector.key.key_id, detector.signature, "0.823", "44.5 %"):
        assert text in page.text
    assert "1 of 2 designs carry the mark at p ≤ 0.001; 0.002 expected by chance" in page.text
    assert "Native sequences, for comparison: 0 of 1" in page.text
    assert html.count('<span class="badge m">marked</span>') == 2  # in table and summary
    assert html.count('<span class="badge c">no mark found</span>') == 4
    assert page.tags.count("svg") == 6
    assert html == render_report(detector, entries, title="Two designs")


def test_the_page_warns_and_stands_alone(detector: Detector) -> None:
    html = render_report(detector, [entry(detector, marked_design(detector.key))], title="x")
    page = Page(html)
    assert "Keep this page as secret as the key" in page.text
    assert page.text.index("learns the partition") < page.text.index(detector.signature)
    assert SECRET_HEX not in html
    assert "http://" not in html
    assert "https://" not in html
    assert "url(" not in html
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    targets = {value for name, value in page.attributes if name == "id"}
    links = [value for name, value in page.attributes if name in ("href", "src")]
    assert links == ["#s1"]
    assert {link[1:] for link in links} <= targets


def test_whatever_a_user_supplies_is_escaped(detector: Detector) -> None:
    hostile = "<script>alert('1')</script>\"&"
    html = render_report(detector, [entry(detector, "MKV" * 9, hostile)], title=hostile)
    page = Page(html)
    assert "script" not in page.tags
    assert page.text.count(hostile) == 4  # title, heading, table, sequence
    assert html.count("<details") == 1


def test_letters_have_the_colour_of_their_part(detector: Detector) -> None:
    page = Page(render_report(detector, [entry(detector, PROTEIN.letters * 9)], title="x"))
    letters, styles = page.coloured()
    assert letters == PROTEIN.letters * 9
    part_of = detector.key.partition.part_of.tolist()
    assert styles == ["u" if p < 0 else f"p{p}" for p in part_of] * 9
    assert re.findall(r'class="at">\s*(\d+)<', render_report(
        detector, [entry(detector, "A" * 130)], title="x"
    )) == ["1", "61", "121"]  # fmt: skip


def test_positions_that_are_not_scored_are_grey(detector: Detector) -> None:
    scored = np.ones(200, dtype=bool)
    scored[50:120] = False
    design = marked_design(detector.key)
    masked = entry(detector, design, scored=scored)
    html = render_report(detector, [masked], title="x")
    _, styles = Page(html).coloured()
    assert [style != "u" for style in styles] == scored.tolist()
    assert html.count("<polyline") == 2  # the track stops over what is not scored
    whole = render_report(detector, [entry(detector, design)], title="x")
    assert whole.count("<polyline") == 1


def test_chains_are_numbered_each_from_1(detector: Detector) -> None:
    html = render_report(detector, [entry(detector, "MKVLA" * 13 + "/" + "AC" * 10)], title="x")
    assert re.findall(r'class="at">\s*([\d/]+)<', html) == ["1", "61", "/", "1"]
    letters, _ = Page(html).coloured()
    assert letters == "MKVLA" * 13 + "AC" * 10


def test_marked_designs_are_compared_with_unmarked(detector: Detector) -> None:
    kinds = [(True, 0.9, 0.40), (True, 1.1, 0.44), (False, 0.7, 0.5), (False, 0.8, float("nan"))]
    entries = [
        entry(detector, "MKV" * 20, score=score, recovery=recovery, watermarked=kind)
        for kind, score, recovery in kinds
    ]
    native = entry(detector, "MKV" * 20, native=True, score=9.0, recovery=1.0, watermarked=False)
    page = Page(render_report(detector, [*entries, native], title="x"))
    assert "1.000 [-0.271, 2.271] n = 2" in page.text
    assert "0.750 [0.115, 1.385] n = 2" in page.text
    assert "42.0 % [16.6 %, 67.4 %] n = 2" in page.text
    assert "50.0 % n = 1" in page.text  # one value has no interval
    assert page.tags.count("svg") == 2 * 5 + 2
    one_kind = render_report(detector, entries[:2], title="x")
    assert "Marked against unmarked" not in one_kind


def test_token_ids_are_shown_as_they_are(secret: Secret, rng: np.random.Generator) -> None:
    alphabet = Alphabet.from_symbols("tokenizer:t", [f"t{i}" for i in range(1200)], unscored=[0])
    profile = Profile(alphabet=alphabet, scheme=Paper(chain=KeyChain.cycle(10), pattern_length=3))
    detector = Detector(Key.of(secret, profile), "pattern")
    ids = rng.integers(0, 1200, size=55)
    ids[7] = 0
    page = Page(render_report(detector, [entry(detector, ids)], title="x"))
    assert [int(i) for _, text in page.pieces for i in text.split()] == ids.tolist()
    assert ("u", "   0") in page.pieces
    parts = detector.key.partition.part_of[ids]
    expected = {"u"} | {f"p{p}" if p < 8 else f"p{p - 8} again" for p in parts[parts >= 0]}
    assert {style for style, _ in page.pieces} == expected
    assert "120 symbols" in page.text


def test_a_text_is_shown_as_it_runs(secret: Secret) -> None:
    alphabet = Alphabet.from_symbols("tokenizer:t", [f"t{i}" for i in range(40)], unscored=[0])
    detector = Detector(Key.of(secret, Profile(alphabet=alphabet, scheme=Paper())))
    words = ("<b>", " bold", "\n", "", "\x1b[2J", " &amp;", " é", "t")
    shown = replace(entry(detector, np.arange(8)), words=words)
    html = render_report(detector, [shown], title="x")
    text, styles = Page(html).coloured()
    assert text == "".join(words).replace("\x1b", "·")
    kinds = detector.key.partition.part_of[:8].tolist()
    expected = [f"p{k}" if k >= 0 else "u" for k, w in zip(kinds, words, strict=True) for _ in w]
    assert styles == expected
    short = replace(shown, words=words[:3])
    with pytest.raises(ParameterError, match="3 words for 8 positions"):
        render_report(detector, [short], title="x")


def test_the_shortest_and_the_long(detector: Detector, rng: np.random.Generator) -> None:
    sequences = [rng.integers(0, 21, size=n) for n in (0, 1, 2, 5000)]
    entries = [entry(detector, ids, id="") for ids in sequences]
    html = render_report(detector, entries, title="x")
    page = Page(html)
    assert "nothing to score: empty" in page.text
    assert "too short to tell" in page.text
    assert "sequence 4" in page.text
    assert "nan" not in html
    assert len(html) < 250_000
    assert "0 of 0" in render_report(detector, [], title="x")


def test_what_does_not_fit_is_refused(key: Key, detector: Detector) -> None:
    other = entry(Detector(key, "pattern", m=4), "MKV" * 20, "made-elsewhere")
    with pytest.raises(ParameterError, match=r"'made-elsewhere' was not made by this detector"):
        render_report(detector, [other], title="x")
    good = entry(detector, "MKV" * 20)
    bad = ReportEntry(good.verdict, good.sequence, np.ones(3, dtype=bool))
    with pytest.raises(ParameterError, match="3 entries for 60 positions"):
        render_report(detector, [bad], title="x")


def test_two_hundred_designs_fit_on_a_page(detector: Detector) -> None:
    design = entry(detector, marked_design(detector.key, 500), score=1.0, watermarked=True)
    html = render_report(detector, [design] * 200, title="x")
    assert len(html.encode()) < 10_000_000


def test_a_page_of_block_marks_shows_what_agrees(secret: Secret, rng: np.random.Generator) -> None:
    detector = Detector(Key.of(secret, Profile(scheme=Blocks(nonces=1))))
    page = Page(render_report(detector, [entry(detector, rng.integers(0, 20, 90))], title="x"))
    assert "which symbols were promoted where" in page.text
    assert "learns the partition" not in page.text
    assert "a repeat of an earlier stretch" not in page.text  # all of them count
    _, styles = page.coloured()
    assert {"p0", "p1"} <= set(styles) <= {"p0", "p1", "u"}
