"""Broken, crafted and random inputs for everything that reads what others made.

- `mutations`: how an input is changed.
- `targets` and the modules `of_*`: what reads inputs, from which examples they are made, and what
  must hold besides "a result or an error of our own".
- `judging`: one input under limits of time and memory; a `Find` is what it broke.
- `corpus`: every input that once broke something, with one line on what it did.
- `worker`, `hunt`: the loop of `scripts/fuzz`, in processes of their own.

The tests try a few hundred inputs, found by hypothesis; `scripts/fuzz MINUTES` tries many.
"""
