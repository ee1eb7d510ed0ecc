"""Rules of the configuration: which calls are allowed, asked about or denied in every mode."""
