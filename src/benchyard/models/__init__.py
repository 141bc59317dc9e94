"""One definition per noun, shared by wire, store and client."""
