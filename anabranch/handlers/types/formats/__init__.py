"""Node types for texts: patterns, HTML, Markdown, CSV and XML. All are pure."""
