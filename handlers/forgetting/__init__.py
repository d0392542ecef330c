"""The forgetting pass: a process manager, judge workers, and the rule of one open proposal."""
