"""The demo's input: a sample of real documents worded as decisions, and a loader for a folder of one's own."""
