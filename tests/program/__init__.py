"""The Pulumi program under a recording monitor: no engine, no cluster."""
