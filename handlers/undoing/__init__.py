"""Taking effects of decisions and policies back: found, looked at first, recorded, and undoable themselves.

``selecting`` finds effects, ``undoers`` says per kind of stream what taking one back appends, ``undoing`` carries
an undo to its end. What one decision did is taken back together or not at all.
"""
