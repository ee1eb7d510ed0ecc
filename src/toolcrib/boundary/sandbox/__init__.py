"""Confine commands. Each backend is a line in `backends`, and most are a module or package here."""

from __future__ import annotations

from .backends import NoSandbox, probe, select_sandbox
from .settings import CommandLimits, DockerSettings, Profile, SandboxSettings
from .spec import DoctorFinding, Sandbox

__all__ = [
    "CommandLimits",
    "DockerSettings",
    "DoctorFinding",
    "NoSandbox",
    "Profile",
    "Sandbox",
    "SandboxSettings",
    "probe",
    "select_sandbox",
]
