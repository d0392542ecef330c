"""The rules. Pure: no I/O, no clock, no randomness; time and ids come in as arguments.

Each aggregate is a frozen state with two functions: ``decide(state, command, …) -> list[Event]`` says what
follows from a command, ``evolve(state, event) -> state`` says what an event did.
"""
