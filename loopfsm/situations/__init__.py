"""Situations: what a result of a tool says about the world (DESIGN section 7)."""
