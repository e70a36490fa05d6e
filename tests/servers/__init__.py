"""The one layer that starts database servers for tests.

A data directory is made once in a test run, for each product and version, and shared by all workers (`template`); every server
of a test is a copy of one, in memory where that is large enough, and gone at the end. Ports are ones that the kernel gives to
no client.
"""

from tests.servers.run import copy_folder, free_port, made, new_folder, run_folder, template

__all__ = ["copy_folder", "free_port", "made", "new_folder", "run_folder", "template"]
