"""Remove secrets from every text: known kinds by their format, granted ones by value. Tools get secrets by name."""
