"""What would have been proposed under other thresholds, another policy or another judge."""
