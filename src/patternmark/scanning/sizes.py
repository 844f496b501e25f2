"""How much is read at once. These sizes bound the memory of a scan, whatever its input."""

from patternmark.io import bounded

PIECE = 2**23  # bytes of a file that one worker reads at once
LONGEST_RECORD = bounded.LONGEST_RECORD  # bytes; a longer record is skipped
STREAM_READ = 2**20  # bytes of a stream that are read before checking whether a piece is full
OVERHANG_READ = 2**16  # bytes per read after a piece, to find the end of its last record
GZIP_READ = 2**17  # bytes of gzip that are decompressed at once
ZSTD_READ = 2**12  # bytes of Zstandard that are; a few, as each may become 32 KiB
COLUMN_ROWS = 2**10  # rows of a column that are read at once; each may be long
BATCH_RECORDS = 2**14  # records of a piece that are judged together: their data fit the CPU cache
