"""The functions of the package: what the command line does, for Python.

They take a sequence (letters, ids or a text), a file (`Path`), or many of these. Their results
share one set of attributes (see `patternmark.results`). A function that needs an extra imports it
when it is called.
"""
