"""Each value of a call is one argument, whatever it holds. What is printed is the answer."""

import sys

with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
    print(sum(len(line.split()) for line in file), "words")
