"""HTTP: sessions and studies over an API, a dashboard and metrics; no logic of its own. Needs `trimtab[serve]`."""
