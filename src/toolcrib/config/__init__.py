"""Load settings from defaults, files, environment and flags, check them, and decide which files to trust."""

from .load import load_settings
from .merge import make_settings
from .settings import Settings, config_schema
from .trust_store import TextToTrust, TrustStore

__all__ = ["Settings", "TextToTrust", "TrustStore", "config_schema", "load_settings", "make_settings"]
