"""Running an installation: workers, views, parked messages, the audit, the log as it stands."""
