"""Chess by mail over a broker, with kills."""
