"""Proteins and text written under any scheme."""
