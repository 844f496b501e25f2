"""Designing marked sequences on a backbone."""
