"""Sessions: runs of agents with a lease, and which writes were made in them."""
