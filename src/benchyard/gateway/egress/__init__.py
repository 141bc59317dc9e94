"""The egress proxy of devboxes: rules for reachable hosts, and the proxy that applies them."""
