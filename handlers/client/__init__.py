"""The Python door over a network: the same verbs and answers as the memory that runs in one's own process."""
