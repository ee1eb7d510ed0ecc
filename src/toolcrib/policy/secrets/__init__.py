"""Secrets: known ones by their shape and granted ones by their value leave every text; tools get them by name."""
