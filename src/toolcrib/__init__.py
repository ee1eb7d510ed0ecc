"""The tool layer for LLM agents: the tools an agent needs, and one guarded way to call any of them."""
