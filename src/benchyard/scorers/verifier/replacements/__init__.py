"""Programs of the verifier kit that replace programs needing a network; each is self-contained.

They are copied into the kit and run there by its Python, so they import no module of Benchyard.
"""
