"""Scan millions of sequences for the marks of many keys (`pip install 'patternmark[scan]'`).

    screen = Screen(keys)                        what is looked for
    scan_batches(batches, screen)                Arrow record batches in, hits out
    scan_files(files, screen, output)            files in, Parquet and a manifest out

`lanes` and `kernels` are compiled by numba: bytes become counts of letters, counts the statistics
of all keys. What passes is judged by the detector `auto`, as `patternmark detect` does.
"""
