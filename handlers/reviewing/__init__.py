"""The review desk: what is proposed, how it is decided, and what deciding does, kind by kind.

``queue`` lists and shows, ``deciding`` accepts and rejects, ``kinds`` says what accepting does, ``staging`` puts
proposals of other kinds than retention into the queue. `reviewing.Reviewing` is all of it for one caller.
"""
