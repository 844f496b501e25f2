"""Scan millions of sequences for the marks of many keys (`pip install 'patternmark[scan]'`).

    screen = KeySet(keys)                        what is looked for
    scan_batches(batches, screen)                Arrow record batches in, hits out
    Scan(files, screen, work).run()              files in; `result` corrects and writes

`byte_lanes` and `record_loops` are compiled by numba. They turn bytes into counts of letters, and
these into the statistics of all keys. Pairs of a segment and a key that pass this first stage are
judged by the detector `auto`, as in `patternmark detect`.
"""

from patternmark.scanning.batches import count_tests, hit_schema, scan_batches
from patternmark.scanning.file_scan import Scan
from patternmark.scanning.keyset import KeySet

__all__ = ["KeySet", "Scan", "count_tests", "hit_schema", "scan_batches"]
