"""Reads documents as Markdown: PDF, Word, PowerPoint, spreadsheets, images. A separate process reads each of them."""

from .document_reader import DocumentReader

__all__ = ["DocumentReader"]
