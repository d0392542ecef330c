"""Webhooks: telling a tenant's receivers over HTTP what happened, signed and until they have it."""
