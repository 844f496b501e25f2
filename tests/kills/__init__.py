"""Runs that are killed at random moments, continued, and compared with runs that were not.

`jobs` has the commands that can be continued, on small but real inputs; `killing` kills them.
"""
