"""Reports as the wire shows them."""
