"""TPC-W, a bookshop: its data, and its pages asked by emulated browsers."""
