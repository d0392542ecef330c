"""Read models: the batched runner, live memory, review queue, history; embedders; search; rebuild."""
