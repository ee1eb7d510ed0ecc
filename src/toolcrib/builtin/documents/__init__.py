"""Documents as Markdown: PDF, Word, PowerPoint, spreadsheets, images. Read in a process of their own."""

from .reader import DocumentReader

__all__ = ["DocumentReader"]
