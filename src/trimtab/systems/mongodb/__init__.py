"""MongoDB: what its catalogue asks of a mongod by commands; `python -m trimtab.systems.mongodb` answers."""
