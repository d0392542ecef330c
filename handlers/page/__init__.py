"""The review page: server-rendered, and whole without JavaScript.

``mounting`` puts it under `/` beside REST; ``desk`` checks every request (session, CSRF, permissions) and answers
errors; ``queue``, ``proposals``, ``deciding``, ``memories``, ``dashboard`` and ``login`` are its pages. All of it
comes through `AsyncMemory`, like every other door's.
"""
