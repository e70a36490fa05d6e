"""Web applications of this project (apps/java) as workloads: built, filled with data, and looked at page by page."""

from trimtab.workload.webapp.ask import Answer, ask, require_page
from trimtab.workload.webapp.build import Application, built

__all__ = ["Answer", "Application", "ask", "built", "require_page"]
