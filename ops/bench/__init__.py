"""Speed, measured: each figure beside what it is held against, in one run, taking turns (design.md 11)."""
