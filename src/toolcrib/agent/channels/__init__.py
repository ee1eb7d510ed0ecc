"""The channels of the message bus, made from the settings."""

from .make import channels_of, secret_value

__all__ = ["channels_of", "secret_value"]
