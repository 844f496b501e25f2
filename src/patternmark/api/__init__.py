"""The functions of the package: what the command line does, for Python.

They take sequences as letters, as ids, as a text, as a file (`Path`) or as many of these. They
return results that share their attributes (see `patternmark.results`). What needs an extra is
imported when it is called.
"""
