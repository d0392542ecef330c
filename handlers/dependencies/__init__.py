"""Dependency reviews: what rested on a memory that ended is put before somebody."""
