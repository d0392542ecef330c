"""Erasure: what it reaches, the saga that carries it to its end, and the proof that it did."""
