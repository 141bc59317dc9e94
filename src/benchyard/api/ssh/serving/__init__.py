"""What is built on asyncssh: loaded once somebody uses ssh, for it looks for libraries as it is imported."""
