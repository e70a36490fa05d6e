"""Emulated browsers on a web application that a file describes: its states, requests, forms and transition tables."""

from trimtab.workload.site.browsing import BrowsingWorkload
from trimtab.workload.site.file import SiteFile, State, builtin_site, load_site
from trimtab.workload.site.interactions import Interaction, interactions
from trimtab.workload.site.load import SITE_KEYS, SiteLoad
from trimtab.workload.site.shares import stationary_shares
from trimtab.workload.site.workload import SiteWorkload

__all__ = [
    "SITE_KEYS",
    "BrowsingWorkload",
    "Interaction",
    "SiteFile",
    "SiteLoad",
    "SiteWorkload",
    "State",
    "builtin_site",
    "interactions",
    "load_site",
    "stationary_shares",
]
