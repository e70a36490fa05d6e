"""The layers that Trimtab brings, one a file; registered like anybody's."""
