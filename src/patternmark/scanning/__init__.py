"""Scan millions of sequences for the marks of many keys (`pip install 'patternmark[scan]'`).

    screen = KeySet(keys)                        what is looked for
    scan_batches(batches, screen)                Arrow record batches in, hits out
    Scan(files, screen, work).run()              files in; `result` corrects and writes

`byte_lanes` and `record_loops` are compiled by numba: bytes become counts of letters, counts the
statistics of all keys. What passes is judged by the detector `auto`, as `patternmark detect` does.
"""

from patternmark.scanning.batches import count_tests, hit_schema, scan_batches
from patternmark.scanning.file_scan import Scan
from patternmark.scanning.keyset import KeySet

__all__ = ["KeySet", "Scan", "count_tests", "hit_schema", "scan_batches"]
