"""Programs that run another command: which of their words it is, so that it is judged, too."""
