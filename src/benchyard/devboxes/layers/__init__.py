"""File trees and layers on disk: standard library only, also run by children of the zygote."""
