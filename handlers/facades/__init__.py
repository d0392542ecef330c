"""Doors in the shape of other memories: LangGraph's store and mem0. Programs of theirs change one import."""
