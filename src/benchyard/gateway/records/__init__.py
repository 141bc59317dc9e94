"""Records of calls: one database file per grant, written, read and priced."""
