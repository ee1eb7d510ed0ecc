"""`python -m toolcrib`: the same as the command `toolcrib`."""

from toolcrib.cli import main

main()
