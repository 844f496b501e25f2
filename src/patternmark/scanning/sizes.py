"""How much is read at once: what bounds the memory of a scan, whatever its input."""

PIECE = 2**23  # bytes of a file that one worker reads at once
LONGEST_RECORD = 2**27  # bytes; a longer one is skipped
STREAMED = 2**20  # bytes of a stream between two looks at whether a piece is full
BEYOND = 2**16  # bytes that are read behind a piece to find the end of its last record
COMPRESSED = 2**17  # bytes of gzip that are decompressed at once
ZSTD = 2**12  # bytes of Zstandard that are; few, as each may become 32 KiB
ROWS = 2**10  # of a column that are read at once; they may be long
RECORDS = 2**14  # of a piece that are judged together: what is known of them stays in the cache
