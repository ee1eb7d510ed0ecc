"""What a call is: frozen data and the row of stages it flows through. Imports no other room."""
