"""Commitments: what was promised, by whom and until when, riding on memories."""
