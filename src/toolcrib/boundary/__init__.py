"""What a running call can reach: files, processes, addresses. Knows nothing of tools or policy."""
