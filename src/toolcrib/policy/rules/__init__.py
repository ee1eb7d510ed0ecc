"""Rules of the configuration: which calls are allowed, asked about or denied in every mode (spec 6.2)."""
