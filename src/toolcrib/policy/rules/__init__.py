"""Rules of the configuration: which calls are allowed, asked about or denied whatever the mode says (spec 6.2)."""
