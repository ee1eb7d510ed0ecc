"""What a shell command would do, read off its syntax tree: its parts, their effects, and a judgement."""
