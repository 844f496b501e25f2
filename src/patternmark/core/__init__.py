"""What generator and detector share: all that a port or an auditor must read.

Read it in this order. `alphabet` and `secret` are the ground: symbols, and randomness from a key.
`partition` and `chain` belong to the paper's scheme, `blocks` to the default scheme for proteins
and `turns` to that for text; `schemes` lets all code use them alike. `profile` holds all public
parameters, `key` joins them with the secret, `keyfile` reads and writes both (with `tables`).
`marker` and `promote` turn keys into a bias for a model; `reading` turns a finished sequence into
what counts; `verdict` is what a detector says about it.
"""
