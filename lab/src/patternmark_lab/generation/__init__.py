"""Generate proteins and text under any scheme."""
