"""Moving memories in and out: archives of a tenant, and what other systems left behind."""
