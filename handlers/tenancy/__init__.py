"""Tenants: their making, names, policies and quotas."""
