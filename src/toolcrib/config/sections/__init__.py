"""The sections of the settings, one file a room: name, type, default, and what an untrusted file may do to each."""
