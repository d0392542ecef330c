"""Contradictions: flagged, put before their owner, settled on the record (S4; D12)."""
