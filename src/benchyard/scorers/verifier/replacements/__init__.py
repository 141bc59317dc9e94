"""Programs of the verifier kit, in the place of those that would need a network; each stands by itself.

They are copied into the kit and run there by its Python, so they import nothing of ours.
"""
