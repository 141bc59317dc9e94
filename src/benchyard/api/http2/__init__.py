"""HTTP/2 beside HTTP/1.1 on the same port: every stream is one more request to the same app."""
