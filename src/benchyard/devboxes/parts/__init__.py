"""What the native driver is put together from, on the server's side."""
