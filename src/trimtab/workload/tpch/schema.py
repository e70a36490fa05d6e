"""The eight TPC-H tables: columns (clause 1.4), keys, indexes and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["DATABASE_BYTES_PER_SCALE", "LOAD_BYTES_PER_SCALE", "TABLES", "SchemaName", "Table", "extra_indexes"]

SchemaName = Literal["standard", "pk-only"]

DATABASE_BYTES_PER_SCALE = 1_700_000_000
"""Bytes of the loaded database per unit of scale, indexes included: 1.69e9 on PostgreSQL 18, 1.63e9 on MariaDB 10.11."""

LOAD_BYTES_PER_SCALE = 900_000_000
"""Bytes of write-ahead log and sort files that stand beside it while loading, per unit of scale."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table; both row counts are 0 where only the generator knows (lineitem)."""

    name: str
    columns: str
    key: tuple[str, ...]
    rows_per_scale: int = 0
    fixed_rows: int = 0

    def expected_rows(self, scale: float) -> int | None:
        """The exact number of rows at `scale`; None when only the generator knows."""
        if self.fixed_rows:
            return self.fixed_rows
        return int(self.rows_per_scale * scale) if self.rows_per_scale else None


# Order keys are bigint because they pass 2^31 from scale 358 on.
TABLES = (
    Table(
        "lineitem",
        """l_orderkey bigint NOT NULL, l_partkey integer NOT NULL, l_suppkey integer NOT NULL,
        l_linenumber integer NOT NULL, l_quantity numeric(15,2) NOT NULL,
        l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL,
        l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL,
        l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL,
        l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL""",
        ("l_orderkey", "l_linenumber"),
    ),
    Table(
        "orders",
        """o_orderkey bigint NOT NULL, o_custkey integer NOT NULL, o_orderstatus char(1) NOT NULL,
        o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL,
        o_clerk char(15) NOT NULL, o_shippriority integer NOT NULL, o_comment varchar(79) NOT NULL""",
        ("o_orderkey",),
        rows_per_scale=1_500_000,
    ),
    Table(
        "partsupp",
        """ps_partkey integer NOT NULL, ps_suppkey integer NOT NULL, ps_availqty integer NOT NULL,
        ps_supplycost numeric(15,2) NOT NULL, ps_comment varchar(199) NOT NULL""",
        ("ps_partkey", "ps_suppkey"),
        rows_per_scale=800_000,
    ),
    Table(
        "customer",
        """c_custkey integer NOT NULL, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL,
        c_nationkey integer NOT NULL, c_phone char(15) NOT NULL, c_acctbal numeric(15,2) NOT NULL,
        c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL""",
        ("c_custkey",),
        rows_per_scale=150_000,
    ),
    Table(
        "part",
        """p_partkey integer NOT NULL, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL, p_brand char(10) NOT NULL,
        p_type varchar(25) NOT NULL, p_size integer NOT NULL, p_container char(10) NOT NULL,
        p_retailprice numeric(15,2) NOT NULL, p_comment varchar(23) NOT NULL""",
        ("p_partkey",),
        rows_per_scale=200_000,
    ),
    Table(
        "supplier",
        """s_suppkey integer NOT NULL, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL,
        s_nationkey integer NOT NULL, s_phone char(15) NOT NULL, s_acctbal numeric(15,2) NOT NULL,
        s_comment varchar(101) NOT NULL""",
        ("s_suppkey",),
        rows_per_scale=10_000,
    ),
    Table(
        "nation",
        """n_nationkey integer NOT NULL, n_name char(25) NOT NULL, n_regionkey integer NOT NULL,
        n_comment varchar(152) NOT NULL""",
        ("n_nationkey",),
        fixed_rows=25,
    ),
    Table(
        "region",
        "r_regionkey integer NOT NULL, r_name char(25) NOT NULL, r_comment varchar(152) NOT NULL",
        ("r_regionkey",),
        fixed_rows=5,
    ),
)
"""Largest first: the loader takes them in this order."""


_PART_SUPP = ("lineitem", "CREATE INDEX lineitem_part_supp ON lineitem (l_partkey, l_suppkey)")
_CUSTOMER = ("orders", "CREATE INDEX orders_customer ON orders (o_custkey)")

_INDEXES = {
    # PostgreSQL does not unnest the correlated aggregates of Q17 and Q20: without it each scans lineitem once per outer row.
    # No other foreign-key or date index, as those made some plans slower.
    "postgresql": (_PART_SUPP,),
    # MariaDB joins by loops unless told otherwise: Q13 and Q22 would scan orders once per block of customers.
    "mysql": (_PART_SUPP, _CUSTOMER),
}


def extra_indexes(schema: SchemaName, protocol: str) -> tuple[tuple[str, str], ...]:
    """(table, SQL) of the indexes beyond the primary keys: those without which a query takes minutes on that server."""
    return () if schema == "pk-only" else _INDEXES[protocol]
