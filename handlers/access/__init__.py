"""Who may: credentials, tokens, JWTs, and the caller that comes of them."""
