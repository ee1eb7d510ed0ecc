"""The files, processes and addresses that a running call can reach. This package does not know tools or policy."""
