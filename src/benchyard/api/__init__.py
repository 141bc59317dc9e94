"""The server's HTTP interface: one route file per noun, no logic."""
