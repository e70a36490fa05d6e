"""mysql: a MySQL or MariaDB server as a target."""

from trimtab.systems.mysql.target import MysqlTarget

__all__ = ["MysqlTarget"]
