"""The package as users get it: wheel and sdist, installed into empty environments outside the repository."""
