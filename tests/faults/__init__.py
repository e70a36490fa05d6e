"""The fault matrix: one test per row, named by the row's id (see README.md in this folder)."""
