"""RUBiS, an auction site: its data, and its pages asked by emulated browsers."""
