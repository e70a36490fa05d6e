"""Load generators in processes of their own, here or on other machines, and their parts as one run."""
