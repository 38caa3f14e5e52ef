"""Pure modules and loopback: no root, no engine, no cluster."""
