"""What reacts: command handlers, the forgetting pass, judges, and the doors people use."""
