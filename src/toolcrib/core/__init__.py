"""The call: frozen data, and the stages that it runs through. It imports no other package of Toolcrib."""
