"""unit/ needs nothing; program/ needs pulumi, but no engine; cluster/ and training/ need the real thing."""
