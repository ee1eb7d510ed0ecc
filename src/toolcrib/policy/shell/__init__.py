"""Find out from its syntax tree what a shell command would do: its parts, their effects, and a judgement."""
