"""WHERE code runs: the driver contract (`base`), and one module per driver."""
