"""What generator and detector share: all that a port or an auditor must read.

Read it in this order. `alphabet` and `secret` come first: symbols, and randomness from a secret.
`partition` and `chain` belong to the paper's scheme, `blocks` to the default scheme for proteins
and `turns` to the default scheme for text; `schemes` gives all three one interface. `profile` holds
all public parameters, `key` joins them with the secret, and `keyfile` (with `tables`) reads and
writes both. `marker` and `promote` turn position keys into a bias for a model. `reading` selects
the positions of a finished sequence that a detector counts.
"""
