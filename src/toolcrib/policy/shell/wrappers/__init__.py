"""Find the command that a program runs, among the program's words, so that it is judged, too."""
