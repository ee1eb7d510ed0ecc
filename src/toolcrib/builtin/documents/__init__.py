"""Documents as Markdown: PDF, Word, PowerPoint, spreadsheets, images. Read in a process of their own."""
