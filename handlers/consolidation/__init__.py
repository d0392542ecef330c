"""Consolidation passes: near memories, and the mildest edge proposed between them (behaviour.md 1.13)."""
