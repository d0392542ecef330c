"""The log and what carries it: event store, key vault, directory, reader, relay, broker topology."""
