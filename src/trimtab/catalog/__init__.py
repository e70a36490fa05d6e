"""Data: the knob overlays, one TOML file per system; each system's target room reads and checks its own; and the study
file of `trimtab demo`."""
