"""Reading facts in memories by a model elsewhere, and staging them for a reviewer (behaviour.md 1.14.3; S3)."""
