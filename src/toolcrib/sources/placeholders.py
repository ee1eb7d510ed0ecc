"""`{{name}}` in a template. What is in it otherwise, `{{.ID}}` of a Go template for one, is text."""

import re

PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
