"""The placeholder `{{name}}` in a template. Other braces, such as `{{.ID}}` of a Go template, are ordinary text."""

import re

PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
