"""The REST door: one table of routes, the server that answers them and the page for reviewers."""
