"""Reports on jobs, as the wire shows them."""
